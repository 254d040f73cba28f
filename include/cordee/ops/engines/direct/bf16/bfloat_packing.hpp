// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weights of a bf16 layer from canonical order to those of engine `direct`'s two directions,
// where channels and filters fill blocks of V and the products are of pairs.
//
// V filters at a time are transposed into a scratch of floats, (C/V, R, S, V of C, V of K), as for
// fp32 (ops/engines/direct/tiles/packed_form.hpp). In it the rows of two adjacent channels are
// fprop's pairs, and transposed once more those of two adjacent filters are dgrad's: a network's
// weights are read once and written once for each direction.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/direct/tiles/matrix_product.hpp>
#include <cordee/ops/engines/direct/tiles/packed_form.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <int V>
class bfloat_packing {
 public:
  explicit bfloat_packing(const convolution_problem& p)
      : form_{p.filters, p.in.channels, p.window} {}

  static constexpr bool applies_to(const convolution_problem& p) {
    return V == lanes<float> && V % 2 == 0 && bfloat_group<V, true> == 2 &&
           p.in.channels % V == 0 && p.filters % V == 0;
  }
  /// `dgrad` is pairs of bf16 with the taps in reverse order, or the rounded weights in float.
  template <class Backward>
  void pack(const float* master,  // (K, C, R, S)
            bfloat* fprop,        // (K/V, C/V, R, S, V/2 of C, V of K, 2)
            Backward* dgrad,      // (C/V, K/V, R, S, V/2 of K, V of C, 2), or (.., V of K, V of C)
            cpu::stream s) const {
    const auto size = static_cast<std::size_t>(form_.block_size());
    device::parallel_chunks(
        s, channel_blocks(form_.outputs, V), 1, [&](std::size_t first, std::size_t last) {
          thread_local scratch<float> memory;
          float* const block = memory.reserve(size);  // (C/V, R, S, V of C, V of K)
          for (std::size_t b = first; b < last; ++b) {
            form_.pack(b, b + 1, master, block);
            store_pairs(block, size, fprop + b * size);
            if constexpr (std::same_as<Backward, bfloat>) {
              pack_pairs_of_filters(b, block, dgrad);
            } else {
              round_all<bfloat>(block, size);
              form_.swap_channels(b, b + 1, block, dgrad);
            }
          }
        });
  }

 private:
  using words = vec<std::uint32_t, V>;

  /// Rows of V floats, two by two.
  static void store_pairs(const float* rows, std::size_t numbers, bfloat* to) {
    for (std::size_t i = 0; i < numbers; i += 2 * V)
      store_words(to + i, load<float, V>(rows + i), load<float, V>(rows + i + V));
  }
  void pack_pairs_of_filters(std::size_t block, const float* from, bfloat* dgrad) const {
    const std::size_t taps = static_cast<std::size_t>(form_.window) *
                             static_cast<std::size_t>(form_.window),
                      square = std::size_t{V} * V,
                      pitch = channel_blocks(form_.outputs, V) * taps * square;
    for (std::size_t c = 0; c < channel_blocks(form_.inputs, V); ++c)
      for (std::size_t tap = 0; tap < taps; ++tap, from += square) {
        vec<float, V> row[std::size_t{V}];  // of a channel, then of a filter
        for (int i = 0; i < V; ++i) row[i] = load<float, V>(from + i * V);
        transpose<float, V>(row);
        bfloat* const to = dgrad + c * pitch + (block * taps + taps - 1 - tap) * square;
        for (int k = 0; k < V; k += 2) store_words(to + k * V, row[k], row[k + 1]);
      }
  }
  [[gnu::always_inline]] static void store_words(bfloat* to, vec<float, V> low,
                                                 vec<float, V> high) {
    store<std::uint32_t, V>(reinterpret_cast<std::uint32_t*>(to),
                            lane_conversion<bfloat, V>::pairs(low, high));
  }

  packed_form<V> form_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
