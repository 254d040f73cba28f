// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How numbers are spread (ops/histogram.hpp), as grids: each thread counts in a column of its own,
// in shared memory, and columns and blocks are added behind it. All are whole, so none is rounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cordee/device/grid.hpp>
#include <cordee/ops/histogram.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

struct count_by_chunk {
  static constexpr int threads = 64, bins = number_bins::count;
  static constexpr std::size_t chunk = threads * 1024;  // 16 bits hold what a thread counts
  std::size_t n;
  const float* x;
  std::uint32_t* counts;  // (blocks, bins)

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return threads * bins * sizeof(std::uint16_t);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    auto* const columns = b.template shared<std::uint16_t>(threads * bins);
    const int t = b.thread();
    for (int k = 0; k < bins; ++k) columns[k * threads + t] = 0;
    const std::size_t first = b.index() * chunk, last = std::min(first + chunk, n);
    for (std::size_t i = first + static_cast<std::size_t>(t); i < last; i += threads)
      ++columns[number_bins::of(x[i]) * threads + t];
    b.sync();
    for (int k = t; k < bins; k += threads) {
      std::uint32_t sum = 0;
      for (int i = 0; i < threads; ++i) sum += columns[k * threads + (i + t) % threads];
      counts[b.index() * bins + static_cast<std::size_t>(k)] = sum;
    }
  }
};
struct add_counts {
  std::size_t chunks;
  const std::uint32_t* of;
  double* to;
  double filling;
  CORDEE_DEVICE void operator()(std::size_t bin) const {
    double sum = to[bin] - (bin == number_bins::half ? filling : 0);
    for (std::size_t i = 0; i < chunks; ++i) sum += of[i * number_bins::count + bin];
    to[bin] = sum;
  }
};

}  // namespace detail

/// Adds how many of n numbers are of each bin, but for so many zeros that only fill up blocks.
template <GridStream S>
void count_numbers(std::size_t n, const float* x, double* counts, S s, std::size_t filling = 0) {
  using pass = detail::count_by_chunk;
  const std::size_t chunks = blocks_for(n, pass::chunk);
  const lent<std::uint32_t, S> each(s, chunks * number_bins::count);
  s.launch(chunks, pass{n, x, each.data()});
  for_each(s, number_bins::count,
           detail::add_counts{chunks, each.data(), counts, static_cast<double>(filling)});
}

}  // namespace cordee::inline CORDEE_ABI
