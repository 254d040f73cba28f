// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over a table of segments on a grid, with the bodies of ops/segmented.hpp.
//
// A block works on one chunk, which never straddles two segments. It finds its own by bisection in
// a part of the table that the kernel's parameters carry: nothing is copied before a launch, and a
// body reads norms that an earlier launch left on the device. Sums are made per chunk in double and
// added by one block a segment, so they are the same bits in whatever order blocks run.
//
// On a GPU a block's `sum` is cub::BlockReduce. CUB's segmented reduction of a whole device is not
// used: it gives a segment one block however long it is, and looks at no flag first (gated.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/segmented.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

inline constexpr std::size_t grid_chunk = 4096;  // sixteen numbers a thread

/// Some consecutive segments of a table.
class carried_table {
 public:
  static constexpr std::size_t most = 128;  // a kernel's parameters are 4 KiB at most

  /// Numbers first .. last-1 of the view, in segment k of the table.
  struct run {
    kind what;
    std::size_t k, first, last;
  };

  carried_table(std::span<const segment> table, std::size_t from)
      : from_(from), size_(std::min(most, table.size() - from)) {
    for (std::size_t j = 0; j < size_; ++j) {
      const segment& s = table[from_ + j];
      const std::size_t first = s.offset - table.front().offset;
      entries_[j] = {first, first + s.size, s.what, static_cast<unsigned>(chunks_)};
      chunks_ += blocks_for(s.size, grid_chunk);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t chunks() const { return chunks_; }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t segment_at(std::size_t j) const { return from_ + j; }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t chunks_before(std::size_t j) const {
    return j < size_ ? entries_[j].chunks_before : chunks_;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE run run_of(std::size_t chunk) const {
    std::size_t j = 0;  // the last segment that has no more chunks before it: it is not empty
    for (std::size_t end = size_; end - j > 1;) {
      const std::size_t middle = (j + end) / 2;
      (entries_[middle].chunks_before <= chunk ? j : end) = middle;
    }
    const entry& e = entries_[j];
    const std::size_t first = e.first + (chunk - e.chunks_before) * grid_chunk;
    return {e.what, from_ + j, first, std::min(first + grid_chunk, e.last)};
  }

 private:
  struct entry {
    std::size_t first, last;
    kind what;
    unsigned chunks_before;
  };
  std::size_t from_, size_, chunks_ = 0;
  entry entries_[most] = {};
};

/// f(a part of the table), till all of it was carried.
template <class F>
void in_parts(std::span<const segment> table, const F& f) {
  for (std::size_t from = 0; from < table.size(); from += carried_table::most)
    f(carried_table(table, from));
}

/// Neighbouring threads work on neighbouring numbers of the block's run.
template <class Real, class Body>
struct segmented_pass {
  static constexpr int threads = 256;
  static constexpr bool independent = true;
  carried_table table;
  Body body;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const carried_table::run run = table.run_of(b.index());
    const auto f = arithmetic_of(body, run.what, run.k);
    if (idle(f)) return;
    for (std::size_t i = run.first + static_cast<std::size_t>(b.thread()); i < run.last;
         i += threads)
      f(place<Real, 1>{i});
  }
};

/// partial[chunk of the part] <- the squares of what the arithmetic returned in it
template <class Real, class Body>
struct squares_by_chunk {
  static constexpr int threads = 256;
  carried_table table;
  Body body;
  double* partial;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const carried_table::run run = table.run_of(b.index());
    const auto f = arithmetic_of(body, run.what, run.k);
    double sum = 0;
    for (std::size_t i = run.first + static_cast<std::size_t>(b.thread()); i < run.last;
         i += threads) {
      const auto x = static_cast<double>(f(place<Real, 1>{i}));
      sum += x * x;
    }
    sum = b.sum(sum);
    if (b.thread() == 0) partial[b.index()] = sum;
  }
};

/// squares[k] <- the sum of its chunks; a block for each segment, empty ones too.
struct squares_by_segment {
  static constexpr int threads = 32;  // a large layer has some hundreds of chunks
  carried_table table;
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

/// What a plane holds.
template <class Real>
struct number_of {
  const Real* x;
  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at(x);
  }
};

}  // namespace detail

template <class Real, GridStream S, Segmentwise<Real> Body>
void segmented_for(S s, std::span<const segment> table, const Body& body) {
  using pass = detail::segmented_pass<Real, Body>;
  static_assert(sizeof(pass) <= 4096, "a kernel's parameters are 4 KiB at most");
  detail::in_parts(table, [&](const auto& part) { s.launch(part.chunks(), pass{part, body}); });
}

template <class Real, GridStream S, Segmentwise<Real> Body, class D>
void segmented_squares(S s, std::span<const segment> table, const Body& body,
                       span_on<double, D> squares) {
  using pass = detail::squares_by_chunk<Real, Body>;
  static_assert(sizeof(pass) <= 4096, "a kernel's parameters are 4 KiB at most");
  expects(squares.size >= table.size(), "segmented_squares: one sum for each segment");
  detail::in_parts(table, [&](const auto& part) {
    const lent<double, S> partial(s, part.chunks());
    s.launch(part.chunks(), pass{part, body, partial.data()});
    s.launch(part.size(), detail::squares_by_segment{part, partial.data(), squares.data});
  });
}
template <class Real, GridStream S, class D>
void segmented_squares(S s, std::span<const segment> table,
                       std::type_identity_t<span_on<const Real, D>> x, span_on<double, D> squares) {
  segmented_squares<Real>(s, table, detail::number_of<Real>{x.data}, squares);
}

}  // namespace cordee::inline CORDEE_ABI
