// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overload of the histogram (ops/histogram.hpp): each thread counts in its own column of shared
// memory, then columns and blocks are added. Counts are integers, so the result is exact and does
// not depend on the number of blocks: up to three on each of 132 multiprocessors, and more where a
// thread would have more than 1,024 numbers, whose counts fit 16 bits.
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
  static constexpr std::size_t enough_blocks = 396;
  static constexpr std::size_t least = 64, most = 1024;  // numbers per thread
  std::size_t n, chunk;                                  // numbers of a block
  const float* x;
  std::uint32_t* counts;  // (blocks, bins)
  kept_range kept{};

  [[nodiscard]] static constexpr std::size_t chunk_of(std::size_t n) {
    return threads * std::clamp(device::blocks_for(n, threads * enough_blocks), least, most);
  }
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
/// Adds the blocks' counts to the running ones: a block of threads for `block_bins` of them.
struct add_counts_kernel {
  static constexpr int threads = 256, block_bins = 8, slots = threads / block_bins;
  std::size_t chunks;
  const std::uint32_t* block_counts;  // (chunks, histogram_bins::count)
  double* counts;                     // (histogram_bins::count)
  double padding;
  kept_range kept{};

  [[nodiscard]] static constexpr std::size_t blocks() { return histogram_bins::count / block_bins; }
  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (kept.has_values()) return;
    auto* const sums = b.template shared<double>(threads);
    const int t = b.thread();
    const std::size_t bin = b.index() * block_bins + static_cast<std::size_t>(t % block_bins);
    double sum = 0;
    for (auto i = static_cast<std::size_t>(t / block_bins); i < chunks; i += slots)
      sum += block_counts[i * histogram_bins::count + bin];
    sums[t] = sum;
    b.sync();
    if (t >= block_bins) return;
    for (int i = 1; i < slots; ++i) sum += sums[i * block_bins + t];
    counts[bin] += sum - (bin == histogram_bins::zero ? padding : 0);
  }
};

/// Adds the counts of n numbers to the bins, without `padding` zeros that only fill channel blocks,
/// unless the range is `kept`.
template <GpuStream S>
void add_to_histogram(std::size_t n, const float* x, double* counts, S s, std::size_t padding = 0,
                      const kept_range& kept = {}) {
  const std::size_t chunk = histogram_kernel::chunk_of(n), chunks = device::blocks_for(n, chunk);
  const device::stream_buffer<std::uint32_t, S> block_counts(s, chunks * histogram_bins::count);
  s.launch_kernel(chunks, histogram_kernel{n, chunk, x, block_counts.data(), kept});
  s.launch_kernel(
      add_counts_kernel::blocks(),
      add_counts_kernel{chunks, block_counts.data(), counts, static_cast<double>(padding), kept});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
