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

#include <algorithm>
#include <cstddef>

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
    for (int i = 0; i < numbers; ++i) {
      const int at = chunk * numbers + i, s = at / plan_.pixel,
                channel = c * plan_.in_block + at % plan_.pixel;
      bfloat* const to = tile + i / 2 * (2 * tile_filters) + i % 2;
      int n = 0;
      if (s < columns.taps && at % plan_.pixel < plan_.in_block && channel < plan_.in.channels) {
        const float* w = master + channel * of_channel + columns.first_tap + s * columns.tap_step;
        for (; n < filters; ++n, w += of_filter) to[2 * n] = bfloat::nearest(*w);
      }
      for (; n < tile_filters; ++n) to[2 * n] = bfloat{};
    }
  }

  convolution_problem p_;
  tile_correlation_plan plan_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
