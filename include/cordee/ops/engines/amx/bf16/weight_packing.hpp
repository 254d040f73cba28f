// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Packs the weights of engine `amx` for both directions (packed_weights.hpp) in one pass over the
// masters, where the blocks of both are full: 32 filters by 32 channels of all taps are transposed
// in registers, and their tiles are written while they are in the first-level cache. The rest of
// the masters of 32 filters follows at adjacent addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/bf16/packed_weights.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

class tile_weight_packing {
 public:
  explicit tile_weight_packing(const convolution_problem& p)
      : p_(p), dgrad_(plan_tile_correlation(p, true, 1)), taps_(p.window * p.window) {}

  static constexpr bool applies_to(const convolution_problem& p) {
    return p.in.channels % tile_channels == 0 && p.filters % tile_channels == 0;
  }
  void pack(const float* master,  // (K, C, R, S)
            bfloat* fprop, bfloat* dgrad, cpu::stream s) const {
    const int blocks = p_.in.channels / tile_channels;
    const std::ptrdiff_t run = tile_channels * taps_, of_filter = blocks * run;
    device::parallel_chunks(
        s, static_cast<std::size_t>(p_.filters / tile_channels), 1,
        [&](std::size_t first, std::size_t last) {
          thread_local scratch<float> memory;
          float* const block = memory.reserve(static_cast<std::size_t>(run * tile_channels));
          for (auto k = static_cast<int>(first); k < static_cast<int>(last); ++k)
            for (int c = 0; c < blocks; ++c) {
              transpose_block(master + k * tile_channels * of_filter + c * run, of_filter, block);
              pack_fprop(block, fprop + (k * blocks + c) * taps_ * 2 * tile);
              pack_dgrad(k, c, block, dgrad);
            }
        });
  }

 private:
  static constexpr int V = std::min(tile_filters, lanes<float>);
  static constexpr std::ptrdiff_t tile = std::ptrdiff_t{tile_channels} * tile_filters;

  void transpose_block(const float* master, std::ptrdiff_t of_filter,
                       float* block) const {  // (32 of C, R, S, 32 of K)
    for (int k = 0; k < tile_channels; k += V)
      for (std::ptrdiff_t i = 0; i < tile_channels * taps_; i += V) {
        vec<float, V> square[std::size_t{V}];
        for (int v = 0; v < V; ++v) {
          const float* const from = master + (k + v) * of_filter + i;
          square[v] = load<float, V>(from);
          __builtin_prefetch(from + tile_channels * taps_);  // the next block: 32 streams are many
        }
        transpose<float, V>(square);
        for (int v = 0; v < V; ++v) store<float, V>(block + (i + v) * tile_channels + k, square[v]);
      }
  }
  void pack_fprop(const float* block, bfloat* to) const {  // (R, S, 2, 16 pairs, 16 of K, 2)
    for (std::ptrdiff_t tap = 0; tap < taps_; ++tap)
      for (int column = 0; column < 2; ++column, to += tile)
        for (int c = 0; c < tile_channels; c += 2)
          for (int n = 0; n < tile_filters; n += V) {
            const float* const even = at(block, c, tap) + column * tile_filters + n;
            store_pairs(to + c * tile_filters + 2 * n, load<float, V>(even),
                        load<float, V>(even + taps_ * tile_channels));
          }
  }
  /// The tiles of filters 32 k .. and channels 32 c ..
  void pack_dgrad(int k, int c, const float* block, bfloat* to) const {
    for (int phase = 0; phase < dgrad_.phases(); ++phase) {
      if (dgrad_.is_empty(phase)) continue;
      const tile_phase rows = dgrad_.row_phase(phase), columns = dgrad_.column_phase(phase);
      const std::ptrdiff_t steps = dgrad_.steps(phase);
      bfloat* tiles = to + 2 * tile * (c * steps + std::ptrdiff_t{k} * rows.taps * columns.taps);
      for (int r = 0; r < rows.taps; ++r)
        for (int q = 0; q < columns.taps; ++q, tiles += 2 * tile)
          pack_dgrad_tiles((rows.first_tap + r * rows.tap_step) * p_.window + columns.first_tap +
                               q * columns.tap_step,
                           block, tiles);
      to += dgrad_.phase_weights(phase);
    }
  }
  void pack_dgrad_tiles(std::ptrdiff_t tap, const float* block,
                        bfloat* to) const {  // (2, 16 pairs, 16 of C, 2)
    for (int column = 0; column < 2; ++column, to += tile)
      for (int k = 0; k < tile_channels; k += V)
        for (int n = 0; n < tile_filters; n += V) {
          vec<float, V> square[std::size_t{V}];  // of a channel, then of a filter
          for (int v = 0; v < V; ++v)
            square[v] = load<float, V>(at(block, column * tile_filters + n + v, tap) + k);
          transpose<float, V>(square);
          for (int v = 0; v < V; v += 2)
            store_pairs(to + (k + v) * tile_filters + 2 * n, square[v], square[v + 1]);
        }
  }
  [[nodiscard]] const float* at(const float* block, int c, std::ptrdiff_t tap) const {
    return block + (c * taps_ + tap) * tile_channels;
  }
  [[gnu::always_inline]] static void store_pairs(bfloat* to, vec<float, V> low,
                                                 vec<float, V> high) {
    store<std::uint32_t, V>(reinterpret_cast<std::uint32_t*>(to),
                            lane_conversion<bfloat, V>::pairs(low, high));
  }

  convolution_problem p_;
  tile_correlation_plan dgrad_;
  std::ptrdiff_t taps_;
};

/// Both directions, of any layer.
inline void pack_tiles(const convolution_problem& p,
                       const float* master,  // (K, C, R, S)
                       bfloat* fprop, bfloat* dgrad, cpu::stream s) {
  if (tile_weight_packing::applies_to(p))
    return tile_weight_packing(p).pack(master, fprop, dgrad, s);
  tile_packed_weights(p, false).pack(master, fprop, s);
  tile_packed_weights(p, true).pack(master, dgrad, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
