// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over a table of segments: the fused update of a rule, and norms per segment.
//
// The work is cut into chunks that never straddle two segments and never depend on the number of
// workers; sums are made per chunk in double and added in the order of chunks, so they are the same
// bits for any number of workers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

inline constexpr std::size_t chunk_size = 16384;  // 64 KiB of FP32: two streams fit a level-2 cache

constexpr std::size_t chunks_of(const segment& s) { return (s.size + chunk_size - 1) / chunk_size; }
constexpr std::size_t chunks_of(std::span<const segment> table) {
  std::size_t n = 0;
  for (const segment& s : table) n += chunks_of(s);
  return n;
}

/// f(segment index, chunk index over all segments, first, last), places relative to the first
/// segment.
template <class F>
void for_each_chunk(cpu::stream s, std::span<const segment> table, const F& f) {
  if (table.empty()) return;
  parallel(s, chunks_of(table), 1, [&](std::size_t begin, std::size_t end) {
    std::size_t k = 0, before = 0;  // the segment, and the chunks of the segments before it
    for (std::size_t chunk = begin; chunk < end; ++chunk) {
      while (chunk >= before + chunks_of(table[k])) before += chunks_of(table[k++]);
      const std::size_t start = table[k].offset - table.front().offset;
      const std::size_t first = start + (chunk - before) * chunk_size;
      f(k, chunk, first, std::min(first + chunk_size, start + table[k].size));
    }
  });
}

}  // namespace detail

/// Calls f(k, first, last) for runs of numbers of segment k, all of them once; `first` and `last`
/// are places in a view that begins at the table's first segment.
template <class F>
void segmented_for(cpu::stream s, std::span<const segment> table, const F& f) {
  detail::for_each_chunk(
      s, table,
      [&](std::size_t k, std::size_t, std::size_t first, std::size_t last) { f(k, first, last); });
}

/// The same, and sums[k] becomes the sum of what f returned (doubles) for the runs of segment k.
/// Runs and the order of the sum do not depend on the number of workers.
template <class F>
void segmented_sums(cpu::stream s, std::span<const segment> table, span_on<double, cpu> sums,
                    const F& f) {
  expects(sums.size >= table.size(), "segmented_sums: one sum for each segment");
  std::vector<double> partial(detail::chunks_of(table));
  detail::for_each_chunk(
      s, table, [&](std::size_t k, std::size_t chunk, std::size_t first, std::size_t last) {
        partial[chunk] = f(k, first, last);
      });
  std::size_t chunk = 0;
  for (std::size_t k = 0; k < table.size(); ++k) {
    sums[k] = 0;
    for (std::size_t end = chunk + detail::chunks_of(table[k]); chunk < end; ++chunk)
      sums[k] += partial[chunk];
  }
}

namespace detail {

/// Of n numbers, in double. Eight independent sums let the compiler use its vectors without
/// -ffast-math.
template <class Real>
double sum_of_squares(const Real* from, std::size_t n) {
  constexpr std::size_t width = 8;
  double sums[width] = {};
  const std::size_t whole = n / width * width;
  for (std::size_t i = 0; i < whole; i += width)
    for (std::size_t j = 0; j < width; ++j) {
      const auto value = static_cast<double>(from[i + j]);
      sums[j] += value * value;
    }
  for (std::size_t i = whole; i < n; ++i) {
    const auto value = static_cast<double>(from[i]);
    sums[i - whole] += value * value;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace detail

/// The sum of squares of each segment of `x`, in double: squares[k] for segment k of the table.
/// A number that is not finite makes its segment's sum so.
template <class Real>
void segmented_squares(cpu::stream s, std::span<const segment> table, span_on<const Real, cpu> x,
                       span_on<double, cpu> squares) {
  segmented_sums(s, table, squares, [&](std::size_t, std::size_t first, std::size_t last) {
    return detail::sum_of_squares(x.data + first, last - first);
  });
}

}  // namespace cordee::inline CORDEE_ABI
