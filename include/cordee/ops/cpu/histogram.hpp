// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Counts numbers into ops/histogram.hpp's bins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/mutex.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/histogram.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Adds n numbers to the counts (histogram_bins::count); `padding` of them, zeros that only fill up
/// blocks of channels, are not counted.
[[gnu::cold, gnu::noinline]] inline void add_to_histogram(std::size_t n, const float* x,
                                                          std::span<double> counts, cpu::stream s,
                                                          std::size_t padding = 0) {
  counts[histogram_bins::zero] -= static_cast<double>(padding);
  core::mutex mutex;
  device::parallel_chunks(s, n, 4096, [&](std::size_t first, std::size_t last) {
    // Two tables: an increment of the bin just incremented would wait for that store.
    std::array<std::array<std::uint32_t, histogram_bins::count>, 2> tables{};
    for (std::size_t i = first; i < last; ++i)
      ++tables[i % 2][static_cast<std::size_t>(histogram_bins::index(x[i]))];
    const core::scoped_lock lock(mutex);
    for (std::size_t b = 0; b < counts.size(); ++b)
      counts[b] += static_cast<double>(tables[0][b]) + static_cast<double>(tables[1][b]);
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
