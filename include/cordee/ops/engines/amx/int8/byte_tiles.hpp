// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of engine `amx` for bytes: 32 pixels x two blocks of V filters, or half of either.
//
// Two tiles of 16 pixels and two of weights are loaded for four products, which take 16 cycles
// each; a load takes 8 from the first-level cache, and up to 20 from the second. The sums begin
// with zeros, or as a row of initial values, which a tile load with a pitch of zero repeats for
// every pixel. Between the steps the epilogue of the sums before is computed
// (deferred_epilogue.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What the kernel reads and writes. Pitches are in bytes, those of sums in numbers.
struct byte_tile_memory {
  const std::uint8_t* x = nullptr;  // (groups, window rows, window tiles of 64), of pixel 0
  std::ptrdiff_t x_step = 0;        // from pixel to pixel
  std::ptrdiff_t x_group = 0, x_phase = 0, x_row = 0;
  const std::int8_t* w = nullptr;         // (groups, window rows, window tiles, 2, 16, V, 4)
  const std::int32_t* initial = nullptr;  // (2, V); null: zeros
  std::int32_t* sums = nullptr;           // (2, sums_block / V, V)
  std::ptrdiff_t sums_block = 0;
  int groups = 0, phases = 0, window_rows = 0, window_tiles = 0;
  const char* prefetch = nullptr;  // the next filters' weights
  int prefetch_lines = 0;          // of them, with each pair of weight tiles
};

/// The tiles of the kernel: sums, pixels, weights.
template <int V>
constexpr tile_shapes byte_tile_shapes(int pixels) {
  tile_shapes shapes;
  for (int t = 0; t < 4; ++t) shapes.set(t, pixels, 4 * V);
  for (int t = 4; t < 6; ++t) shapes.set(t, pixels, tile_bytes);
  for (int t = 6; t < 8; ++t) shapes.set(t, tile_rows, 4 * V);
  return shapes;
}

/// M tiles of pixels, N of filters; runs all slices of the epilogue.
template <int V, int M, int N, TileUnit Unit, class Epilogue>
[[gnu::noinline]] void sum_byte_tiles(Unit& unit, byte_tile_memory& memory, Epilogue& epilogue) {
  const byte_tile_memory at = memory;
  const int steps = at.groups * at.window_rows * at.window_tiles,
            slices = (epilogue.slices() + steps - 1) / steps;  // with each step
  const char* prefetch = at.prefetch;
  constexpr std::ptrdiff_t weight_row = 4 * V, weight_tile = tile_rows * weight_row;
  const std::ptrdiff_t step = at.x_step, next = tile_rows * step;
  if (at.initial == nullptr) {
    unit.template zero<0>();
    if constexpr (N > 1) unit.template zero<1>();
    if constexpr (M > 1) unit.template zero<2>();
    if constexpr (M > 1 && N > 1) unit.template zero<3>();
  } else {
    unit.template load<0>(at.initial, 0);
    if constexpr (N > 1) unit.template load<1>(at.initial + V, 0);
    if constexpr (M > 1) unit.template load<2>(at.initial, 0);
    if constexpr (M > 1 && N > 1) unit.template load<3>(at.initial + V, 0);
  }
  const std::int8_t* w = at.w;
  for (int g = 0; g < at.groups; ++g) {
    const std::uint8_t* x = at.x + g * at.x_group;
    for (int r = 0, phase = 0; r < at.window_rows; ++r) {
      for (int c = 0; c < at.window_tiles; ++c, w += 2 * weight_tile) {
        for (int k = 0; k < at.prefetch_lines; ++k, prefetch += 64)
          __builtin_prefetch(prefetch, 0, 2);
        const std::uint8_t* const pixels = x + std::ptrdiff_t{c} * tile_bytes;
        unit.template load<6>(w, weight_row);
        unit.template load<4>(pixels, step);
        unit.template add_bytes<0, 4, 6>();
        if constexpr (N > 1) {
          unit.template load<7>(w + weight_tile, weight_row);
          unit.template add_bytes<1, 4, 7>();
        }
        if constexpr (M > 1) {
          unit.template load<5>(pixels + next, step);
          unit.template add_bytes<2, 5, 6>();
        }
        if constexpr (M > 1 && N > 1) unit.template add_bytes<3, 5, 7>();
        if (slices > 0) epilogue.run_slices(slices);
      }
      const bool last_phase = ++phase == at.phases;
      x += last_phase ? at.x_row - (at.phases - 1) * at.x_phase : at.x_phase;
      if (last_phase) phase = 0;
    }
  }
  memory.prefetch = prefetch;
  constexpr std::ptrdiff_t pixel = V * sizeof(std::int32_t);
  unit.template store<0>(at.sums, pixel);
  if constexpr (N > 1) unit.template store<1>(at.sums + at.sums_block, pixel);
  if constexpr (M > 1) unit.template store<2>(at.sums + tile_rows * V, pixel);
  if constexpr (M > 1 && N > 1)
    unit.template store<3>(at.sums + at.sums_block + tile_rows * V, pixel);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
