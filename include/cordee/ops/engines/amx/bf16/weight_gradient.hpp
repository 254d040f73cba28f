// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// wgrad of engine `amx` in bf16: runs an amx_gradient_plan.
//
//   dw[k, c, r, s] = sum over samples and pixels of  dy[k, i, j] x[c, i t + r - p, j t + s - p]
//
// A product sums over 16 positions of two samples: tile A has 16 filters of dy, transposed, tile B
// 16 channels of x at the same positions, shifted by a tap; C stays in tiles for up to ten steps.
// The order of a sum, of which the tests have a plain loop: the groups' sums are added in order, in
// fp32; a group's sum begins with zero, and each step of 16 positions, in the order of chunks and
// positions (amx_gradient_plan), adds the even samples' chain of products plus the odd samples'
// chain (ops/engines/amx/tiles/tile_unit.hpp). The groups do not depend on the number of workers.
// A position behind a row multiplies x by zero, so where x is infinite, taps besides those that it
// belongs to may become NaN, too.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/bf16/gradient_sums.hpp>
#include <cordee/ops/engines/amx/bf16/sample_pairs.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/amx/tiles/weight_gradient_plan.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <TileUnit Unit>
class amx_weight_gradient {
 public:
  amx_weight_gradient(const convolution_problem& p, int samples)
      : plan_(plan_amx_gradient(p, samples)) {}
  explicit amx_weight_gradient(const amx_gradient_plan& plan) : plan_(plan) {}

  [[nodiscard]] const amx_gradient_plan& plan() const { return plan_; }

  void run(const bfloat* x,   // (N, C/B, H, W, B)
           const bfloat* dy,  // (N, K/B, H', W', B)
           float* dw,         // (K, C, R, S)
           write_mode mode,
           float* workspace,  // (groups, filter tiles, columns, 16, 16), or nothing
           cpu::stream s) const {
    const bfloat_batch inputs(plan_.layer.in, x, plan_.samples),
        gradients(plan_.out, dy, plan_.samples);
    const auto groups = static_cast<std::size_t>(plan_.groups),
               filter_parts = static_cast<std::size_t>(plan_.filter_parts),
               channel_parts = static_cast<std::size_t>(plan_.channel_parts);
    device::parallel_dynamic(s, groups * filter_parts * channel_parts, [&](std::size_t task) {
      const auto group = static_cast<int>(task / (filter_parts * channel_parts));
      const part of = part_of(static_cast<int>(task / channel_parts % filter_parts),
                              static_cast<int>(task % channel_parts));
      thread_local scratch<float> single;
      if (groups > 1) return sum_group(group, of, inputs, gradients, all_sums(workspace, group));
      // The sums of a single group go to dw at once, while they are in the cache.
      const int columns = of.last_column - of.first_column;
      const gradient_sums sums(
          plan_,
          single.reserve(static_cast<std::size_t>((of.last_filter - of.first_filter) * columns) *
                         gradient_sums::tile),
          of.first_filter, of.first_pair, columns);
      sum_group(group, of, inputs, gradients, sums);
      sums.unpack(of.first_filter, of.last_filter, of.first_pair, of.last_pair, dw, mode);
    });
    if (groups == 1) return;
    const auto filter_size = static_cast<std::size_t>(plan_.column_tiles()) * gradient_sums::tile;
    device::parallel_chunks(
        s, static_cast<std::size_t>(plan_.filter_tiles), 1,
        [&](std::size_t first, std::size_t last) {
          constexpr int L = lanes<float>;
          for (std::size_t t = first; t < last; ++t) {
            for (std::size_t group = 1; group < groups; ++group) {  // in order
              const float* const more = workspace + group * plan_.sums_size();
              for (std::size_t i = t * filter_size; i < (t + 1) * filter_size; i += L)
                store<float, L>(workspace + i,
                                load<float, L>(workspace + i) + load<float, L>(more + i));
            }
            const int tile = static_cast<int>(t);
            all_sums(workspace, 0).unpack(tile, tile + 1, 0, plan_.channel_pairs(), dw, mode);
          }
        });
  }

 private:
  static constexpr int steps_at_once = 10;  // 20 KiB of two tiles A stay in the first-level cache

  /// Tiles of a task.
  struct part {
    int first_filter, last_filter, first_pair, last_pair, first_column, last_column;
  };
  [[nodiscard]] part part_of(int filter_part, int channel_part) const {
    const auto split = [](int all, int i, int parts) { return all * i / parts; };
    const auto filter = [&](int i) {
      return std::min(plan_.filter_tiles, 2 * split(plan_.filter_pairs(), i, plan_.filter_parts));
    };
    const auto pair = [&](int i) { return split(plan_.channel_pairs(), i, plan_.channel_parts); };
    const int first = pair(channel_part), last = pair(channel_part + 1);
    return {filter(filter_part),       filter(filter_part + 1), first, last,
            plan_.first_column(first), plan_.first_column(last)};
  }
  [[nodiscard]] gradient_sums all_sums(float* workspace, int group) const {
    return {plan_, workspace + static_cast<std::size_t>(group) * plan_.sums_size(), 0, 0,
            plan_.column_tiles()};
  }

  /// sums = those of a group's samples
  void sum_group(int group, const part& of, const bfloat_batch& x, const bfloat_batch& dy,
                 const gradient_sums& sums) const {
    struct copies {
      scratch<bfloat_pair> x, dy;
    };
    thread_local copies memory;
    tile_shapes shapes;
    for (int i = 0; i < tile_count; ++i) shapes.set(i, tile_rows, tile_bytes);
    Unit unit(shapes);
    const int tiles = of.last_filter - of.first_filter, first_tile = 2 * of.first_pair,
              last_tile = std::min(plan_.channel_tiles, 2 * of.last_pair);
    bool empty = true;
    plan_.for_each_chunk(group, [&](const amx_gradient_plan::chunk& c) {
      bfloat_pair* const planes =
          memory.x.reserve(static_cast<std::size_t>(plan_.planes_words(last_tile - first_tile, c)));
      pair_planes(plan_, c).write(x, first_tile, last_tile, planes);
      bfloat_pair* const gradient =
          memory.dy.reserve(static_cast<std::size_t>(plan_.gradient_words(tiles, c)));
      transpose_gradient(plan_, c, dy, of.first_filter, of.last_filter, gradient);
      for (int k = 0; k < tiles; k += 2) {
        operands of_filters{.a = gradient + plan_.gradient_words(k, c),
                            .a_tile = plan_.gradient_words(1, c),
                            .b_row = plan_.position_words(),
                            .first_tile = first_tile,
                            .empty = empty};
        if (tiles - k > 1)
          sum_filters<2>(unit, c, of, of.first_filter + k, of_filters, planes, sums);
        else
          sum_filters<1>(unit, c, of, of.first_filter + k, of_filters, planes, sums);
      }
      empty = false;
    });
    if (!empty) return;
    for (int k = of.first_filter; k < of.last_filter; ++k)
      std::fill(sums.at(k, of.first_column), sums.at(k, of.last_column), 0.0f);
  }

  /// Operands of one or two filter tiles.
  struct operands {
    const bfloat_pair* a;       // (1 or 2, steps, 16 filters, 16 positions)
    std::ptrdiff_t a_tile;      // words to the second filter tile
    std::ptrdiff_t b_row;       // words from a position to the next
    int first_tile;             // of the channels, that the planes begin with
    bool empty;                 // the sums have no terms yet
    const bfloat_pair* b[4]{};  // of each column
    float* sums = nullptr;      // of the first filter tile and column
    std::ptrdiff_t filter_pitch = 0;
    int steps = 0;
  };

  /// All columns of one or two filter tiles, in bands of steps.
  template <int Filters>
  void sum_filters(Unit& unit, const amx_gradient_plan::chunk& c, const part& of, int filter,
                   operands o, const bfloat_pair* planes, const gradient_sums& sums) const {
    const int steps = plan_.steps(c), bands = (steps + steps_at_once - 1) / steps_at_once;
    const bfloat_pair* const a = o.a;
    o.filter_pitch = sums.filter_pitch();
    for (int band = 0; band < bands; ++band) {
      const int first = steps * band / bands;
      o.steps = steps * (band + 1) / bands - first;
      o.a = a + std::ptrdiff_t{first} * gradient_sums::tile;
      for (int column = of.first_column; column < of.last_column;) {
        const int n = std::min(4 / Filters, of.last_column - column);
        for (int i = 0; i < n; ++i)
          o.b[i] = planes + plan_.offset_of(plan_.column_at(column + i), o.first_tile, c) +
                   std::ptrdiff_t{first} * tile_rows * o.b_row;
        o.sums = sums.at(filter, column);
        if (n == 1)
          multiply<Filters, 1>(unit, o);
        else if (n == 2)
          multiply<Filters, 2>(unit, o);
        else if constexpr (Filters == 1)
          n == 3 ? multiply<1, 3>(unit, o) : multiply<1, 4>(unit, o);
        column += n;
      }
      o.empty = false;
    }
  }

  template <int N, class F>
  [[gnu::always_inline]] static void for_each(const F& f) {
    [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
      (f(std::integral_constant<int, I>{}), ...);
    }
    (std::make_integer_sequence<int, N>{});
  }

  /// sums += A B over the steps, for Filters x Columns <= 4 tiles C. Tiles B are used again where
  /// there are more columns than tiles left.
  template <int Filters, int Columns>
  static void multiply(Unit& unit, const operands& o) {
    constexpr int first_a = 4, first_b = first_a + Filters, tiles_b = tile_count - first_b;
    constexpr std::ptrdiff_t tile = gradient_sums::tile;
    const auto for_each_sum = [&](const auto& f) __attribute__((always_inline)) {
      for_each<Filters>([&](auto k) __attribute__((always_inline)) {
        for_each<Columns>([&](auto c) __attribute__((always_inline)) {
          f(std::integral_constant<int, k * Columns + c>{}, o.sums + k * o.filter_pitch + c * tile);
        });
      });
    };
    for_each_sum([&](auto t, const float* sum) __attribute__((always_inline)) {
      if (o.empty)
        unit.template zero<t>();
      else
        unit.template load<t>(sum, tile_bytes);
    });
    for (int step = 0; step < o.steps; ++step) {
      for_each<Filters>([&](auto k) __attribute__((always_inline)) {
        unit.template load<first_a + k>(o.a + k * o.a_tile + step * tile, tile_bytes);
      });
      for_each<Columns>([&](auto c) __attribute__((always_inline)) {
        constexpr int b = first_b + c % tiles_b;
        unit.template load<b>(o.b[c] + std::ptrdiff_t{step} * tile_rows * o.b_row,
                              o.b_row * std::ptrdiff_t{sizeof(bfloat_pair)});
        for_each<Filters>([&](auto k) __attribute__((always_inline)) {
          unit.template add_bf16<k * Columns + c, first_a + k, b>();
        });
      });
    }
    for_each_sum([&](auto t, float* sum)
                     __attribute__((always_inline)) { unit.template store<t>(sum, tile_bytes); });
  }

  amx_gradient_plan plan_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
