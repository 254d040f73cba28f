// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the tiles of one phase read and write, as distances: the same for all groups of samples and
// all filters, so computed once for all of them. Computing it for every group would take up to half
// as long as the products of a 1x1 window.
#pragma once

#include <cstddef>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Numbers from the first pixel of the output's block to pixel (i, j) of a phase.
constexpr std::ptrdiff_t output_pixel(const tile_correlation_plan& plan, const tile_phase& rows,
                                      const tile_phase& columns, int i, int j) {
  const int h = rows.output + i * plan.rows.output_step,
            l = columns.output + j * plan.columns.output_step;
  return (std::ptrdiff_t{h} * plan.out.width + l) * plan.out_block;
}

struct phase_walk {
  int phase = 0;
  std::vector<std::ptrdiff_t> offsets;  // of each step, from a tile's first row
  std::vector<std::ptrdiff_t> starts;   // of each tile, from the plane's beginning
  std::vector<std::ptrdiff_t> targets;  // of each row of each tile in y; -1: none
  std::vector<int> last_rows;           // of the plane, that each tile reads

  /// `y_size` numbers of y are from sample to sample.
  phase_walk(const tile_correlation_plan& plan, int phase_index, std::size_t y_size)
      : phase(phase_index) {
    const auto tiles = static_cast<std::size_t>(plan.tiles(phase));
    const int steps = plan.steps(phase);
    offsets.reserve(static_cast<std::size_t>(steps));
    for (int i = 0; i < steps; ++i) offsets.push_back(plan.step_offset(phase, i));
    starts.reserve(tiles);
    last_rows.reserve(tiles);
    targets.resize(tiles * tile_rows);
    int next = 0;  // the first position that no tile before has
    for (int tile = 0; tile < plan.tiles(phase); ++tile) {
      const int start = plan.tile_start(phase, tile);
      starts.push_back(std::ptrdiff_t{start} * plan.columns.step * plan.pixel);
      last_rows.push_back(last_row(plan, start));
      list_targets(plan, start, next, y_size, targets.data() + std::ptrdiff_t{tile} * tile_rows);
      next = start + tile_rows;
    }
  }

 private:
  /// The zeros to the right of a row are those to the left of the next one.
  [[nodiscard]] int last_row(const tile_correlation_plan& plan, int start) const {
    const tile_phase rows = plan.row_phase(phase);
    const int i =
        std::min(rows.outputs - 1, (start + tile_rows - 1) / plan.together / plan.output_pitch());
    return (i + 1) * plan.rows.step + rows.first + rows.taps - 1;
  }
  void list_targets(const tile_correlation_plan& plan, int start, int next, std::size_t y_size,
                    std::ptrdiff_t* to) const {
    const tile_phase rows = plan.row_phase(phase), columns = plan.column_phase(phase);
    const int together = plan.together, pitch = plan.output_pitch();
    if (pitch == plan.out.width && pitch == columns.outputs && together == 1) {  // all lie together
      const int end = rows.outputs * pitch;
      for (int position = start; position < start + tile_rows; ++position)
        *to++ = position >= next && position < end ? std::ptrdiff_t{position} * plan.out_block : -1;
      return;
    }
    int n = start % together, j = start / together % pitch, i = start / together / pitch;
    std::ptrdiff_t pixel = output_pixel(plan, rows, columns, i, j);
    for (int position = start; position < start + tile_rows; ++position) {
      const bool inside = position >= next && i < rows.outputs && j < columns.outputs;
      *to++ = inside ? static_cast<std::ptrdiff_t>(y_size) * n + pixel : -1;
      if (++n < together) continue;
      n = 0;
      pixel += std::ptrdiff_t{plan.columns.output_step} * plan.out_block;
      if (++j < pitch) continue;
      j = 0;
      pixel = output_pixel(plan, rows, columns, ++i, 0);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
