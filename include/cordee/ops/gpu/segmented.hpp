// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of the passes over a table of segments (ops/cpu/segmented.hpp), with the same
// bodies.
//
// A block works on one chunk, which never straddles two segments, and finds its segment by
// bisection in a part of the table that is a kernel parameter: nothing is copied before a launch. A
// body may read norms that an earlier launch left in device memory. Squares are summed per chunk in
// double, and a segment's chunks by the last of its blocks, in their order, so the bits do not
// depend on which block that is.
//
// Sums of squares need counters, which a stream of `make_stream` has and a bare cudaStream_t not.
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

/// Numbers in a chunk: 16 for each thread of a block.
inline constexpr std::size_t segmented_chunk_size = 4096;

/// Consecutive segments of a table, as a kernel parameter.
class table_part {
 public:
  // Kernel parameters are at most 4 KiB; ResNet-50 has 161 segments, which are one part.
  static constexpr std::size_t max_segments = 200;

  /// Numbers first .. last-1 of the view, which lie in segment k of the table, and the segment's
  /// place and chunks in this part.
  struct run {
    kind type;
    std::size_t k, first, last, in_part, first_chunk, last_chunk;
  };

  /// Divides segments into chunks of `chunk` numbers; an empty segment has one.
  table_part(std::span<const segment> table, std::size_t from, std::size_t chunk)
      : from_(from), size_(std::min(max_segments, table.size() - from)), chunk_(chunk) {
    for (std::size_t j = 0; j < size_; ++j) {
      const segment& s = table[from_ + j];
      const std::size_t first = s.offset - table.front().offset;
      expects(first + s.size <= UINT32_MAX, "segmented: a plane has at most 2^32 - 1 numbers");
      entries_[j] = {static_cast<unsigned>(first), static_cast<unsigned>(first + s.size), s.kind,
                     static_cast<unsigned>(chunks_)};
      chunks_ += std::max(device::blocks_for(s.size, chunk), std::size_t{1});
    }
  }

  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t size() const { return size_; }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t chunks() const { return chunks_; }
  /// Numbers of a segment, by its place in this part.
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t numbers_of(std::size_t in_part) const {
    return entries_[in_part].last - entries_[in_part].first;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE run run_at(std::size_t chunk) const {
    std::size_t j = 0;  // the last segment with no more chunks before it
    for (std::size_t end = size_; end - j > 1;) {
      const std::size_t middle = (j + end) / 2;
      (entries_[middle].chunks_before <= chunk ? j : end) = middle;
    }
    const entry& e = entries_[j];
    const std::size_t first = e.first + (chunk - e.chunks_before) * chunk_;
    return {.type = e.type,
            .k = from_ + j,
            .first = first,
            .last = std::min(first + chunk_, std::size_t{e.last}),
            .in_part = j,
            .first_chunk = e.chunks_before,
            .last_chunk = j + 1 < size_ ? entries_[j + 1].chunks_before : chunks_};
  }

 private:
  struct entry {
    unsigned first, last;  // 32 bits, as is the number of chunks: 16 bytes for a segment
    kind type;
    unsigned chunks_before;
  };
  std::size_t from_, size_, chunk_, chunks_ = 0;
  entry entries_[max_segments] = {};
};

/// Calls f(part) for parts that cover the table.
template <class F>
void for_each_part(std::span<const segment> table, std::size_t chunk, const F& f) {
  for (std::size_t from = 0; from < table.size(); from += table_part::max_segments)
    f(table_part(table, from, chunk));
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

/// x[i], as a body.
template <class Real>
struct load_op {
  const Real* x;
  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at(x);
  }
};

/// A body, and where the sum of squares of its results, or of Body::term of them, goes for each
/// segment.
template <class Body>
struct squared_body {
  Body body;
  double* squares;
};
/// squares[k] <- the sum over segment k of the squares of the body's results. A body's blocks are
/// consecutive.
template <class Real, class Body, int Bodies>
struct segment_squares_kernel {
  static constexpr int threads = 256;
  // Each chunk costs a sum. Bodies that also write have fewer threads on a multiprocessor, so that
  // long chunks would leave some of them idle at the end.
  static constexpr std::size_t chunk =
      std::same_as<Body, load_op<Real>> ? 4 * segmented_chunk_size : segmented_chunk_size;
  table_part table;
  squared_body<Body> bodies[std::size_t{Bodies}];
  double* partial;    // (Bodies, chunks)
  unsigned* arrived;  // (Bodies, segments): zero

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t index = Bodies == 1 ? 0 : b.index() / table.chunks(),
                      first = index * table.chunks();
    const table_part::run run = table.run_at(b.index() - first);
    const double of_chunk = b.sum(sum_of_squares(b, bodies[index].body, run));
    if (b.thread() == 0) partial[b.index()] = of_chunk;
    if (!b.is_last(arrived + index * table.size() + run.in_part,
                   static_cast<unsigned>(run.last_chunk - run.first_chunk)))
      return;
    double sum = 0;
    for (std::size_t k = run.first_chunk + static_cast<std::size_t>(b.thread()); k < run.last_chunk;
         k += threads)
      sum += partial[first + k];
    sum = b.sum(sum);
    if (b.thread() == 0) bodies[index].squares[run.k] = sum;
  }

 private:
  template <class Block>
  CORDEE_DEVICE double sum_of_squares(Block& b, const Body& body,
                                      const table_part::run& run) const {
    const auto f = body_for_segment(body, run.type, run.k);
    double sum = 0;
    const auto add = [&sum](Real of_number) {
      const auto x = static_cast<double>(of_number);
      if constexpr (requires { Body::term(x); })
        sum += Body::term(x);
      else
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
    return sum;
  }
};

template <class Real, GpuStream S, SegmentBody<Real> Body>
void segmented_for(S s, std::span<const segment> table, const Body& body) {
  using kernel = segmented_kernel<Real, Body>;
  static_assert(
      sizeof(kernel) <= 4096,
      "segmented: a body of more than 4 KiB with its table exceeds a kernel's parameters; "
      "keep arrays in device memory");
  for_each_part(table, segmented_chunk_size, [&](const auto& part) {
    s.launch_kernel(part.chunks(), kernel{part, body});
  });
}

/// Squares of all bodies, in one launch for each part of the table.
template <class Real, GpuStream S, class Body, class... Bodies>
void launch_squares(S s, std::span<const segment> table, const squared_body<Body>& first,
                    const Bodies&... others) {
  constexpr int count = 1 + static_cast<int>(sizeof...(Bodies));
  using kernel = segment_squares_kernel<Real, Body, count>;
  static_assert(
      sizeof(kernel) <= 4096,
      "segmented: a body of more than 4 KiB with its table exceeds a kernel's parameters; "
      "keep arrays in device memory");
  for_each_part(table, kernel::chunk, [&](const auto& part) {
    const device::stream_buffer<double, S> partial(s, count * part.chunks());
    s.launch_kernel(
        count * part.chunks(),
        kernel{part, {first, others...}, partial.data(), s.counters(count * part.size())});
  });
}
template <class Real, GpuStream S, SegmentBody<Real> Body, class D>
void segmented_squares(S s, std::span<const segment> table, const Body& body,
                       span_on<double, D> squares) {
  expects(squares.size >= table.size(), "segmented_squares: needs room for one sum per segment");
  launch_squares<Real>(s, table, squared_body<Body>{body, squares.data});
}
template <class Real, GpuStream S, class D>
void segmented_squares(S s, std::span<const segment> table,
                       std::type_identity_t<span_on<const Real, D>> x, span_on<double, D> squares) {
  segmented_squares<Real>(s, table, load_op<Real>{x.data}, squares);
}
/// Same, for two planes.
template <class Real, GpuStream S, class D>
void segmented_squares(S s, std::span<const segment> table,
                       std::type_identity_t<span_on<const Real, D>> x, span_on<double, D> squares,
                       std::type_identity_t<span_on<const Real, D>> y,
                       span_on<double, D> squares_of_y) {
  expects(std::min(squares.size, squares_of_y.size) >= table.size(),
          "segmented_squares: needs room for one sum per segment");
  using plane = squared_body<load_op<Real>>;
  launch_squares<Real>(s, table, plane{{x.data}, squares.data}, plane{{y.data}, squares_of_y.data});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
