// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of the passes over a table of segments (ops/cpu/segmented.hpp), with the same
// bodies.
//
// A block works on one chunk, which never straddles two segments, and finds its segment by
// bisection in a part of the table that is a kernel parameter: nothing is copied before a launch. A
// body may read norms that an earlier launch left in device memory. Squares are summed per chunk in
// double, and chunks by one block per segment, so the bits do not depend on the order of blocks.
//
// CUB's device-wide segmented reduction is not used: it gives a segment one block however long it
// is, and cannot be predicated (device/predicated.hpp).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/strided_lanes.hpp>
#include <cordee/ops/segment_body.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

inline constexpr std::size_t segment_chunk = 4096;  // 16 numbers per thread

/// Consecutive segments of a table, as a kernel parameter.
class table_part {
 public:
  // Kernel parameters are at most 4 KiB; ResNet-50 has 161 segments, which are one part.
  static constexpr std::size_t max_segments = 200;

  /// Numbers first .. last-1 of the view, which lie in segment k of the table.
  struct run {
    kind type;
    std::size_t k, first, last;
  };

  table_part(std::span<const segment> table, std::size_t from)
      : from_(from), size_(std::min(max_segments, table.size() - from)) {
    for (std::size_t j = 0; j < size_; ++j) {
      const segment& s = table[from_ + j];
      const std::size_t first = s.offset - table.front().offset;
      expects(first + s.size <= UINT32_MAX, "segmented: a plane has at most 2^32 - 1 numbers");
      entries_[j] = {static_cast<unsigned>(first), static_cast<unsigned>(first + s.size), s.kind,
                     static_cast<unsigned>(chunks_)};
      chunks_ += device::blocks_for(s.size, segment_chunk);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t chunks() const { return chunks_; }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t segment_at(std::size_t j) const { return from_ + j; }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t chunks_before(std::size_t j) const {
    return j < size_ ? entries_[j].chunks_before : chunks_;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE run run_at(std::size_t chunk) const {
    std::size_t j = 0;  // the last segment with no more chunks before it: not empty
    for (std::size_t end = size_; end - j > 1;) {
      const std::size_t middle = (j + end) / 2;
      (entries_[middle].chunks_before <= chunk ? j : end) = middle;
    }
    const entry& e = entries_[j];
    const std::size_t first = e.first + (chunk - e.chunks_before) * segment_chunk;
    return {e.type, from_ + j, first, std::min(first + segment_chunk, std::size_t{e.last})};
  }

 private:
  struct entry {
    unsigned first, last;  // 32 bits, as is the number of chunks: 16 bytes for a segment
    kind type;
    unsigned chunks_before;
  };
  std::size_t from_, size_, chunks_ = 0;
  entry entries_[max_segments] = {};
};

/// Calls f(part) for parts that cover the table.
template <class F>
void for_each_part(std::span<const segment> table, const F& f) {
  for (std::size_t from = 0; from < table.size(); from += table_part::max_segments)
    f(table_part(table, from));
}

/// Adjacent threads take adjacent numbers of the block's run.
template <class Real, class Body>
struct segmented_kernel {
  static constexpr int threads = 256;
  static constexpr bool independent = true;
  table_part table;
  Body body;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const table_part::run run = table.run_at(b.index());
    const auto f = body_for_segment(body, run.type, run.k);
    if (is_idle(f)) return;
    for_each_strided<Real, threads>(run.first + static_cast<std::size_t>(b.thread()), run.last, f);
  }
};

/// partial[chunk] <- the sum over the chunk of the squares of the body's results
template <class Real, class Body>
struct chunk_squares_kernel {
  static constexpr int threads = 256;
  table_part table;
  Body body;
  double* partial;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const table_part::run run = table.run_at(b.index());
    const auto f = body_for_segment(body, run.type, run.k);
    double sum = 0;
    const auto add = [&sum](Real of) {
      const auto x = static_cast<double>(of);
      sum += x * x;
    };
    for_each_strided<Real, threads>(run.first + static_cast<std::size_t>(b.thread()), run.last,
                                    [&](const auto& at) {
                                      const auto x = f(at);
                                      if constexpr (std::convertible_to<decltype(x), Real>)
                                        add(x);
                                      else
                                        for (const Real one : x.value) add(one);
                                    });
    sum = b.sum(sum);
    if (b.thread() == 0) partial[b.index()] = sum;
  }
};

/// squares[k] <- the sum over its chunks; one block per segment, empty ones too.
struct segment_squares_kernel {
  static constexpr int threads = 32;  // a large layer has hundreds of chunks
  table_part table;
  const double* partial;
  double* squares;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t j = b.index();
    double sum = 0;
    for (std::size_t chunk = table.chunks_before(j) + static_cast<std::size_t>(b.thread());
         chunk < table.chunks_before(j + 1); chunk += threads)
      sum += partial[chunk];
    sum = b.sum(sum);
    if (b.thread() == 0) squares[table.segment_at(j)] = sum;
  }
};

/// x[i], as a body.
template <class Real>
struct load_op {
  const Real* x;
  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at(x);
  }
};

template <class Real, GpuStream S, SegmentBody<Real> Body>
void segmented_for(S s, std::span<const segment> table, const Body& body) {
  using kernel = segmented_kernel<Real, Body>;
  static_assert(
      sizeof(kernel) <= 4096,
      "segmented: a body of more than 4 KiB with its table exceeds a kernel's parameters; "
      "keep arrays in device memory");
  for_each_part(table, [&](const auto& part) {
    s.launch_kernel(part.chunks(), kernel{part, body});
  });
}

template <class Real, GpuStream S, SegmentBody<Real> Body, class D>
void segmented_squares(S s, std::span<const segment> table, const Body& body,
                       span_on<double, D> squares) {
  using kernel = chunk_squares_kernel<Real, Body>;
  static_assert(
      sizeof(kernel) <= 4096,
      "segmented: a body of more than 4 KiB with its table exceeds a kernel's parameters; "
      "keep arrays in device memory");
  expects(squares.size >= table.size(), "segmented_squares: needs room for one sum per segment");
  for_each_part(table, [&](const auto& part) {
    const device::stream_buffer<double, S> partial(s, part.chunks());
    s.launch_kernel(part.chunks(), kernel{part, body, partial.data()});
    s.launch_kernel(part.size(), segment_squares_kernel{part, partial.data(), squares.data});
  });
}
template <class Real, GpuStream S, class D>
void segmented_squares(S s, std::span<const segment> table,
                       std::type_identity_t<span_on<const Real, D>> x, span_on<double, D> squares) {
  segmented_squares<Real>(s, table, load_op<Real>{x.data}, squares);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
