// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over a table of segments on the CPU, with the bodies of ops/segment_body.hpp: the fused
// update of an optimizer, and norms per segment.
//
// The work is cut into chunks that never straddle two segments and do not depend on the number of
// workers. Sums are computed per chunk in double and added in the order of chunks, so they have the
// same bits for any number of workers.
#pragma once

#include <cstddef>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/ops/segment_body.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

inline constexpr std::size_t chunk_size = 16384;  // 64 KiB of FP32: two streams fit a level-2 cache

constexpr std::size_t chunks_of(const segment& s) { return (s.size + chunk_size - 1) / chunk_size; }
constexpr std::size_t chunks_of(std::span<const segment> table) {
  std::size_t n = 0;
  for (const segment& s : table) n += chunks_of(s);
  return n;
}

/// Calls f(segment index, chunk index over all segments, first, last), with indices relative to the
/// first segment. Workers share the indices evenly: a chunk belongs to the worker of its first.
template <class F>
void for_each_chunk(cpu::stream s, std::span<const segment> table, const F& f) {
  if (table.empty()) return;
  const std::size_t origin = table.front().offset;
  const std::size_t size = table.back().offset + table.back().size - origin;
  device::parallel_chunks(s, size, chunk_size, [&](std::size_t begin, std::size_t end) {
    std::size_t chunk = 0;
    for (std::size_t k = 0; k < table.size(); ++k) {
      const std::size_t start = table[k].offset - origin, stop = start + table[k].size;
      for (std::size_t first = start; first < stop; first += chunk_size, ++chunk)
        if (begin <= first && first < end) f(k, chunk, first, std::min(first + chunk_size, stop));
    }
  });
}

/// Calls the body at every number of the table's segments, with indices into planes that begin at
/// the first segment.
template <class Real, SegmentBody<Real> Body>
void segmented_for(cpu::stream s, std::span<const segment> table, const Body& body) {
  for_each_chunk(s, table, [&](std::size_t k, std::size_t, std::size_t first, std::size_t last) {
    const auto f = body_for_segment(body, table[k].kind, k);
    if (!is_idle(f)) simd_for_each<Real>(first, last, f);
  });
}

/// A sum of products in double. Eight independent sums vectorise without -ffast-math.
class dot_product {
 public:
  static constexpr std::size_t width = 8;

  /// `n` is a multiple of `width`, except in the last call.
  template <class Real>
  void add(const Real* x, const Real* y, std::size_t n) {
    const std::size_t whole = n / width * width;
    for (std::size_t i = 0; i < whole; i += width)
      for (std::size_t j = 0; j < width; ++j)
        sums_[j] += static_cast<double>(x[i + j]) * static_cast<double>(y[i + j]);
    for (std::size_t i = whole; i < n; ++i)
      sums_[i - whole] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  [[nodiscard]] double total() const {
    return ((sums_[0] + sums_[1]) + (sums_[2] + sums_[3])) +
           ((sums_[4] + sums_[5]) + (sums_[6] + sums_[7]));
  }

 private:
  double sums_[width] = {};
};

/// sums[k] <- the sum of f(k, first, last) over the chunks of segment k.
template <class Sum, class F>
void segmented_sums(cpu::stream s, std::span<const segment> table, span_on<Sum, cpu> sums,
                    const F& f) {
  expects(sums.size >= table.size(), "segmented_sums: needs room for one sum per segment");
  core::pod_vector<Sum> partial;  // (chunks of all segments)
  partial.resize(chunks_of(table));
  for_each_chunk(s, table,
                 [&](std::size_t k, std::size_t chunk, std::size_t first, std::size_t last) {
                   partial[chunk] = f(k, first, last);
                 });
  std::size_t chunk = 0;
  for (std::size_t k = 0; k < table.size(); ++k) {
    sums[k] = {};
    for (std::size_t end = chunk + chunks_of(table[k]); chunk < end; ++chunk)
      sums[k] += partial[chunk];
  }
}

/// squares[k] <- the sum of squares of segment k of `x`, in double. A number that is not finite
/// makes its segment's sum infinite or NaN.
template <class Real>
void segmented_squares(cpu::stream s, std::span<const segment> table, span_on<const Real, cpu> x,
                       span_on<double, cpu> squares) {
  segmented_sums(s, table, squares, [&](std::size_t, std::size_t first, std::size_t last) {
    dot_product sum;
    sum.add(x.data + first, x.data + first, last - first);
    return sum.total();
  });
}

/// Same, for two planes; a GPU reads both in one launch.
template <class Real>
void segmented_squares(cpu::stream s, std::span<const segment> table, span_on<const Real, cpu> x,
                       span_on<double, cpu> squares, span_on<const Real, cpu> y,
                       span_on<double, cpu> squares_of_y) {
  segmented_squares<Real>(s, table, x, squares);
  segmented_squares<Real>(s, table, y, squares_of_y);
}

/// squares[k] <- the sum of squares of what the body returns on segment k.
template <class Real, SegmentBody<Real> Body>
void segmented_squares(cpu::stream s, std::span<const segment> table, const Body& body,
                       span_on<double, cpu> squares) {
  segmented_sums(s, table, squares, [&](std::size_t k, std::size_t first, std::size_t last) {
    constexpr std::size_t block = 256;
    Real values[block];
    dot_product sum;
    const auto f = body_for_segment(body, table[k].kind, k);
    for (std::size_t i = first; i < last; i += block) {
      const std::size_t n = std::min(block, last - i);
      simd_for_each<Real>(i, i + n, [&](auto at) { decltype(at){at.i - i}.put(values, f(at)); });
      sum.add(values, values, n);
    }
    return sum.total();
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
