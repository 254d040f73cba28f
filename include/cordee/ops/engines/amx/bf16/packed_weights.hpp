// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weights of one direction as tiles of B, in the order in which engine `amx` multiplies them:
//
//   for each phase  (filters / 32, steps, 2, pairs of a chunk, 16 filters, 2)
//
// with a single column of 16 filters where their number is odd. "Filters" are what the direction
// writes: those of the layer in fprop, its channels in dgrad.
#pragma once

#include <cstddef>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

class tile_packed_weights {
 public:
  tile_packed_weights(const convolution_problem& p, bool backward)
      : p_(p), plan_(plan_tile_correlation(p, backward, 1)) {}

  /// Numbers of bf16.
  [[nodiscard]] std::size_t size() const { return plan_.packed_size(); }

  void pack(const float* master,  // (K, C, R, S)
            bfloat* packed,       // size()
            cpu::stream s) const {
    const auto columns = static_cast<std::size_t>(plan_.filter_columns);
    for (int phase = 0; phase < plan_.phases(); ++phase) {
      if (plan_.is_empty(phase)) continue;
      device::parallel_chunks(s, columns, 1, [&](std::size_t first, std::size_t last) {
        for (std::size_t q = first; q < last; ++q)
          pack_column(phase, static_cast<int>(q), master, packed);
      });
      packed += plan_.phase_weights(phase);
    }
  }

 private:
  /// Column q of 16 filters, of the phase whose weights begin at `packed`.
  void pack_column(int phase, int q, const float* master, bfloat* packed) const {
    const tile_phase rows = plan_.row_phase(phase), columns = plan_.column_phase(phase);
    const std::ptrdiff_t tile = plan_.weight_tile(phase), steps = plan_.steps(phase);
    const int pair = q / 2 * 2, width = std::min(2, plan_.filter_columns - pair);
    packed += pair * steps * tile + (q - pair) * tile;
    for (int c = 0; c < plan_.in_blocks; ++c)
      for (int r = 0; r < rows.taps; ++r)
        for (int chunk = 0; chunk < plan_.chunks(phase); ++chunk, packed += width * tile)
          pack_tile(phase, q, c, rows.first_tap + r * rows.tap_step, columns, chunk, master,
                    packed);
  }
  /// One tile: numbers of a chunk of the taps in window row r, of channel block c.
  void pack_tile(int phase, int q, int c, int r, const tile_phase& columns, int chunk,
                 const float* master, bfloat* tile) const {
    const int numbers = plan_.chunk_bytes(phase) / 2, first_filter = q * tile_filters,
              filters = std::clamp(plan_.out.channels - first_filter, 0, tile_filters);
    const std::ptrdiff_t taps = std::ptrdiff_t{p_.window} * p_.window,
                         of_filter = plan_.backward ? taps : p_.in.channels * taps,
                         of_channel = plan_.backward ? p_.in.channels * taps : taps;
    master += first_filter * of_filter + std::ptrdiff_t{r} * p_.window;
    std::ptrdiff_t offsets[tile_channels];  // of each number of filter 0; -1: a zero
    bool full = filters == tile_filters;
    for (int i = 0; i < numbers; ++i) {
      const int at = chunk * numbers + i, s = at / plan_.pixel,
                channel = c * plan_.in_block + at % plan_.pixel;
      const bool is_weight =
          s < columns.taps && at % plan_.pixel < plan_.in_block && channel < plan_.in.channels;
      offsets[i] = is_weight ? channel * of_channel + columns.first_tap + s * columns.tap_step : -1;
      full &= is_weight;
    }
    if (!full) return pack_some(numbers, filters, of_filter, offsets, master, tile);
    // In the order of the masters: filters are far apart in fprop, and channels in dgrad.
    if (!plan_.backward)
      for (int n = 0; n < tile_filters; ++n, master += of_filter)
        for (int i = 0; i < numbers; i += 2)
          store_pair(master[offsets[i]], master[offsets[i + 1]], tile + i * tile_filters + 2 * n);
    else if (taps == 1)
      pack_rows(numbers, std::integral_constant<std::ptrdiff_t, 1>{}, offsets, master, tile);
    else
      pack_rows(numbers, taps, offsets, master, tile);
  }
  template <class Pitch>
  static void pack_rows(int numbers, Pitch pitch, const std::ptrdiff_t* offsets,
                        const float* master, bfloat* tile) {
    for (int i = 0; i < numbers; i += 2, tile += 2 * tile_filters) {
      const float *const even = master + offsets[i], *const odd = master + offsets[i + 1];
      for (int n = 0; n < tile_filters; ++n)
        store_pair(even[n * pitch], odd[n * pitch], tile + 2 * n);
    }
  }
  /// A tile with zeros in it.
  static void pack_some(int numbers, int filters, std::ptrdiff_t of_filter,
                        const std::ptrdiff_t* offsets, const float* master, bfloat* tile) {
    for (int i = 0; i < numbers; ++i)
      for (int n = 0; n < tile_filters; ++n)
        tile[i / 2 * (2 * tile_filters) + 2 * n + i % 2] =
            n < filters && offsets[i] >= 0 ? bfloat::nearest(master[n * of_filter + offsets[i]])
                                           : bfloat{};
  }
  static void store_pair(float even, float odd, bfloat* to) {
    to[0] = bfloat::nearest(even);
    to[1] = bfloat::nearest(odd);
  }

  convolution_problem p_;
  tile_correlation_plan plan_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
