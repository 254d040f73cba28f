// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of fprop and dgrad of engine `amx` in bf16: up to four tiles of sums over all steps.
// The vector units and the memory have work between the steps, which the products hide: they
// round the sums of the kernel before (deferred_sums.hpp), copy pixels that later kernels read
// (ops/engines/amx/tiles/phase_planes.hpp) and ask for weights that later kernels load.
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/ops/engines/amx/bf16/deferred_sums.hpp>
#include <cordee/ops/engines/amx/tiles/phase_planes.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What is done between the steps of kernels.
struct work_between {
  deferred_sums sums;
  plane_filler<bfloat>* planes = nullptr;  // null: nothing is left to copy
  int pixels = 0;                          // to copy at each step
  const bfloat* weights = nullptr;         // the next to ask for
  const bfloat* weights_end = nullptr;
  int lines = 0;  // of weights, at each step
  int rows = 0;   // of sums, at each step

  /// The pixels that are left are copied within so many steps.
  void share_copies(std::ptrdiff_t steps) {
    pixels = static_cast<int>((2 * planes->left() + steps - 1) / steps);
  }
  /// Weights are asked for within so many steps.
  void ask_for(const bfloat* first, std::ptrdiff_t numbers, std::ptrdiff_t steps) {
    constexpr std::ptrdiff_t line = 64 / sizeof(bfloat);
    weights = first;
    weights_end = first + numbers;
    lines = static_cast<int>((2 * numbers / line + steps - 1) / steps);
  }
  [[gnu::always_inline]] void run(int step) {
    if (step % 2 == 0) {
      sums.run(rows);
    } else {
      if (planes != nullptr && !planes->copy(pixels)) planes = nullptr;
      if (weights < weights_end)
        for (int i = 0; i < lines; ++i, weights += 64 / sizeof(bfloat))
          __builtin_prefetch(weights, 0, 2);  // to the second-level cache
    }
  }
};

/// What the sums of up to four tiles are made of.
struct tile_operands {
  const bfloat* x[4];             // of each tile of pixels, at position 0 of its rows
  std::ptrdiff_t x_pitch;         // bytes from row to row
  const std::ptrdiff_t* offsets;  // of each step, in numbers
  int steps;
  const bfloat* weights;  // (steps, B, tile)
  std::ptrdiff_t tile;    // numbers
};

/// The sums (A * 16, B * 16) of A tiles of pixels by B tiles of filters over all steps are added to
/// those that wait to be rounded. Tiles 0 to 3 of the unit are the sums, 4 and 5 pixels, 6 and 7
/// weights.
template <int A, int B, class Unit>
[[gnu::always_inline]] inline void sum_tiles(Unit& unit, const tile_operands& of,
                                             const kernel_rows& to, work_between& work) {
  static_assert(A * B <= 4 && B <= 2);
  const auto each = []<int... I>(std::integer_sequence<int, I...>, const auto& f) {
    (f(std::integral_constant<int, I>{}), ...);
  };
  constexpr auto pixels = std::make_integer_sequence<int, A>{};
  constexpr auto filters = std::make_integer_sequence<int, B>{};
  constexpr auto all = std::make_integer_sequence<int, A * B>{};
  each(all, [&](auto t) { unit.template zero<decltype(t)::value>(); });
  work.sums.expect(to);
  const int rounds = (of.steps + 1) / 2;
  work.rows = (work.sums.left() + rounds - 1) / rounds;
  const bfloat* w = of.weights;
  for (int step = 0; step < of.steps; ++step, w += B * of.tile) {
    const std::ptrdiff_t offset = of.offsets[step];
    each(filters, [&](auto b) {
      constexpr int J = decltype(b)::value;
      unit.template load<6 + J>(w + J * of.tile, tile_bytes);
    });
    each(pixels, [&](auto a) {
      constexpr int I = decltype(a)::value;
      unit.template load<4 + I % 2>(of.x[I] + offset, of.x_pitch);
      each(filters, [&](auto b) {
        constexpr int J = decltype(b)::value;
        unit.template add_bf16<I * B + J, 4 + I % 2, 6 + J>();
      });
    });
    work.run(step);
  }
  work.sums.finish();
  each(all, [&](auto t) {
    constexpr int T = decltype(t)::value;
    constexpr std::ptrdiff_t row = B * tile_filters;
    unit.template store<T>(work.sums.memory() + T / B * tile_rows * row + T % B * tile_filters,
                           row * static_cast<std::ptrdiff_t>(sizeof(float)));
  });
  work.sums.add(to);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
