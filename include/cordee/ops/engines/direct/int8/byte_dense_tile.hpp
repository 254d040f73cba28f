// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of byte_tile.hpp for windows of one pixel, stride 1 and whole blocks of channels: its
// addresses are constants of the instructions, and a block's loops are unrolled. In the layers with
// few channels the general tile takes as long for its loops as for an eighth of its products.
#pragma once

#include <cstdint>
#include <cstring>

#include <cordee/ops/engines/direct/int8/byte_tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Requires pixels that are V bytes apart, and an epilogue that is not store_byte_sums. With each
/// block of channels some lines of y and of the next filters' weights are prefetched: always as
/// many, again some of those before where there are fewer, since that has no branches.
template <int V, bool Dots, int Blocks, int Pixels, class Out, class Epilogue>
[[gnu::noinline]] void byte_dense_sums(byte_tile<Out>& at, const Epilogue& epilogue) {
  sum_vec<V> sum[std::size_t{Blocks}][std::size_t{Pixels}];  // (Blocks, Pixels, V)
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t) sum[b][t] = load<std::int32_t, V>(at.initial + b * V);
  const std::uint8_t* x = at.x;
  const std::int8_t* w = at.w;
  const char* next_w = at.prefetch;
  const std::ptrdiff_t x_block = at.x_block, w_block = at.w_block, y_block = at.y_block,
                       y_lines = at.y_lines * V, w_lines = std::ptrdiff_t{at.prefetch_lines} * 64;
  const Out* next_y = at.y + 2 * Pixels * V;
  for (int c = at.blocks; c > 0; --c, x += x_block, w += V * V) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
#pragma GCC unroll 32
      for (int b = 0; b < Blocks; ++b) epilogue.prefetch(next_y + b * y_block + k * V);
      __builtin_prefetch(next_w + k * 64, 0, 2);
    }
    next_y += y_lines;
    next_w += w_lines;
#pragma GCC unroll 16
    for (int i = 0; i < V / 4; ++i) {
      sum_vec<V> weight[std::size_t{Blocks}];
#pragma GCC unroll 32
      for (int b = 0; b < Blocks; ++b)
        std::memcpy(&weight[b], w + b * w_block + i * 4 * V, sizeof weight[b]);
#pragma GCC unroll 32
      for (int t = 0; t < Pixels; ++t) {
        std::int32_t four;
        std::memcpy(&four, x + t * V + 4 * i, 4);
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
          sum[b][t] = byte_dot<V, Dots>::add(sum[b][t], four, weight[b]);
      }
    }
  }
  at.prefetch = next_w;
  finish_sums<V>(at, sum, epilogue);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
