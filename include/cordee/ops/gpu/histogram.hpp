// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overload of the histogram (ops/histogram.hpp): each thread counts in its own column of shared
// memory, then columns and blocks are added. Counts are integers, so the result is exact.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/histogram.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// A layer's running range in device memory. Where it has values, nothing is counted.
struct kept_range {
  const float *low = nullptr, *high = nullptr;  // null: there is none
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr bool has_values() const {
    return low != nullptr && real_range{*low, *high}.has_values();
  }
};

struct histogram_kernel {
  static constexpr int threads = 64, bins = histogram_bins::count;
  static constexpr std::size_t chunk = threads * 1024;  // a thread's counts fit 16 bits
  std::size_t n;
  const float* x;
  std::uint32_t* counts;  // (blocks, bins)
  kept_range kept{};

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return threads * bins * sizeof(std::uint16_t);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (kept.has_values()) return;
    auto* const columns = b.template shared<std::uint16_t>(threads * bins);
    const int t = b.thread();
    for (int k = 0; k < bins; ++k) columns[k * threads + t] = 0;
    const std::size_t first = b.index() * chunk, last = std::min(first + chunk, n);
    for (std::size_t i = first + static_cast<std::size_t>(t); i < last; i += threads)
      ++columns[histogram_bins::index(x[i]) * threads + t];
    b.sync();
    for (int k = t; k < bins; k += threads) {
      std::uint32_t sum = 0;
      // Lanes read different rows, of 32 banks each: from the pair of columns of their own bank on.
      for (int i = 0; i < threads; ++i) sum += columns[k * threads + (i + 2 * t) % threads];
      counts[b.index() * bins + static_cast<std::size_t>(k)] = sum;
    }
  }
};
struct add_counts_op {
  std::size_t chunks;
  const std::uint32_t* block_counts;  // (chunks, bins)
  double* counts;                     // (bins)
  double padding;
  kept_range kept{};
  CORDEE_DEVICE void operator()(std::size_t bin) const {
    if (kept.has_values()) return;
    double sum = counts[bin] - (bin == histogram_bins::zero ? padding : 0);
    for (std::size_t i = 0; i < chunks; ++i) sum += block_counts[i * histogram_bins::count + bin];
    counts[bin] = sum;
  }
};

/// Adds the counts of n numbers to the bins, without `padding` zeros that only fill channel blocks,
/// unless the range is `kept`.
template <GpuStream S>
void add_to_histogram(std::size_t n, const float* x, double* counts, S s, std::size_t padding = 0,
                      const kept_range& kept = {}) {
  using kernel = histogram_kernel;
  const std::size_t chunks = device::blocks_for(n, kernel::chunk);
  const device::stream_buffer<std::uint32_t, S> block_counts(s, chunks * histogram_bins::count);
  s.launch_kernel(chunks, kernel{n, x, block_counts.data(), kept});
  for_each(s, histogram_bins::count,
           add_counts_op{chunks, block_counts.data(), counts, static_cast<double>(padding), kept});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
