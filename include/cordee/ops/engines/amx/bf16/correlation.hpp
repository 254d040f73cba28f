// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop and dgrad of engine `amx` in bf16: runs a tile_correlation_plan over samples.
//
// 32 pixels by 32 filters are summed in four tiles over all steps, in the order (channel block, tap
// row, chunk of the row's taps), each as ops/engines/amx/tiles/tile_unit.hpp says, and rounded
// once. So a sum's bits depend neither on the number of workers nor on which samples are computed
// together. Where the sums of one step have 16 filters alone, four tiles of pixels share a tile of
// weights. Filters whose weights fit half of the second-level cache pass over all pixels before the
// next ones, and a pixel's operands stay in the first-level cache from filter to filter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/amx/tiles/phase_planes.hpp>
#include <cordee/ops/engines/amx/tiles/phase_walk.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What the sums of up to four tiles are made of.
struct tile_operands {
  const bfloat* x[4];             // of each tile of pixels, at position 0 of its rows
  std::ptrdiff_t x_pitch;         // bytes from row to row
  const std::ptrdiff_t* offsets;  // of each step, in numbers
  int steps;
  const bfloat* weights;  // (steps, B, tile)
  std::ptrdiff_t tile;    // numbers
};

/// sums (A * 16, B * 16) = A tiles of pixels by B tiles of filters over all steps. Tiles 0 to 3 of
/// the unit are the sums, 4 and 5 pixels, 6 and 7 weights.
template <int A, int B, class Unit>
[[gnu::always_inline]] inline void sum_tiles(Unit& unit, const tile_operands& of, float* sums) {
  static_assert(A * B <= 4 && B <= 2);
  const auto each = []<int... I>(std::integer_sequence<int, I...>, const auto& f) {
    (f(std::integral_constant<int, I>{}), ...);
  };
  constexpr auto pixels = std::make_integer_sequence<int, A>{};
  constexpr auto filters = std::make_integer_sequence<int, B>{};
  each(std::make_integer_sequence<int, A * B>{},
       [&](auto t) { unit.template zero<decltype(t)::value>(); });
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
  }
  each(std::make_integer_sequence<int, A * B>{}, [&](auto t) {
    constexpr int T = decltype(t)::value;
    unit.template store<T>(sums + T / B * tile_rows * B * tile_filters + T % B * tile_filters,
                           B * tile_filters * static_cast<std::ptrdiff_t>(sizeof(float)));
  });
}

/// y = 16 sums, or y + sums, rounded.
[[gnu::always_inline]] inline void store_sixteen(const float* sums, bfloat* y, bool add) {
  constexpr int V = std::min(16, lanes<float>);
#pragma GCC unroll 4
  for (int v = 0; v < 16; v += V) {
    vec<float, V> sum = load<float, V>(sums + v);
    if (add) sum += load<bfloat, V>(y + v);
    store_bfloat_sums<V, bfloat_dots>(y + v, sum);
  }
}

template <class Unit>
class tile_correlation {
 public:
  tile_correlation(const convolution_problem& p, bool backward) : p_(p), backward_(backward) {}

  void run(int samples,
           const bfloat* x,        // (N, C/B, H, W, B)
           const bfloat* weights,  // tile_packed_weights
           bfloat* y,              // (N, K/B, H', W', B)
           write_mode mode, cpu::stream s) const {
    const int workers = device::workers_of(s);
    while (samples > 0) {  // those that are left over have a plan of their own
      const auto plan = plan_tile_correlation(p_, backward_, std::max(1, samples / workers));
      const int groups = samples / plan.together;
      const auto columns = static_cast<std::size_t>(plan.filter_columns), pairs = (columns + 1) / 2,
                 n = static_cast<std::size_t>(groups),
                 parts = n >= 4 * static_cast<std::size_t>(workers) || workers == 1
                             ? 1
                             : std::min(pairs, 4 * static_cast<std::size_t>(workers) / n);
      const std::size_t x_size = sample_size(plan.in, plan.in_block),
                        y_size = sample_size(plan.out, plan.out_block),
                        together = static_cast<std::size_t>(plan.together);
      const std::size_t tasks = plan.in_place ? parts : std::min(parts, needed_parts(n, workers));
      std::vector<phase_walk> walks;  // one for each phase that has taps
      for (int phase = 0; phase < plan.phases(); ++phase)
        if (!plan.is_empty(phase)) walks.emplace_back(plan, phase, y_size);
      device::parallel_dynamic(s, n * tasks, [&](std::size_t task) {
        const std::size_t group = task / tasks, part = task % tasks;
        const filter_range filters{
            static_cast<int>(2 * (pairs * part / tasks)),
            static_cast<int>(std::min(columns, 2 * (pairs * (part + 1) / tasks)))};
        run_group(plan, walks, filters, x + group * together * x_size, x_size, weights,
                  {y + group * together * y_size, y_size, mode == write_mode::add});
      });
      const std::size_t done = n * together;
      samples -= groups * plan.together;
      x += done * x_size;
      y += done * y_size;
    }
  }

 private:
  /// Columns first .. last-1 of 16 filters.
  struct filter_range {
    int first, last;
  };
  /// What a task writes, and its sums.
  struct output {
    bfloat* y;
    std::size_t sample;  // numbers from sample to sample
    bool add;
  };
  struct thread_memory {
    scratch<bfloat> planes;
    scratch<float> sums;  // (64, 16) or (32, 32)
  };
  /// Each part of the filters copies the planes again: no more parts than keep the workers busy.
  static std::size_t needed_parts(std::size_t groups, int workers) {
    const auto n = static_cast<std::size_t>(workers);
    return groups % n == 0 || groups >= 4 * n ? 1 : (n + groups - 1) / groups;
  }

  void run_group(const tile_correlation_plan& plan, const std::vector<phase_walk>& walks,
                 const filter_range& filters, const bfloat* x, std::size_t x_size,
                 const bfloat* weights, const output& to) const {
    thread_local thread_memory memory;
    if (!plan.in_place) {
      bfloat* const planes = memory.planes.reserve(plan.plane_size());
      fill_planes(plan, x, plan.together, x_size, planes);
      x = planes;
    }
    float* const sums = memory.sums.reserve(std::size_t{64} * tile_filters);
    for (const phase_walk& walk : walks) {
      run_phase(plan, walk, filters, x, weights, to, sums);
      weights += plan.phase_weights(walk.phase);
    }
    if (!to.add)
      for (int phase = 0; phase < plan.phases(); ++phase)
        if (plan.is_empty(phase)) clear(plan, phase, filters, to);
  }

  void run_phase(const tile_correlation_plan& plan, const phase_walk& walk,
                 const filter_range& filters, const bfloat* x, const bfloat* weights,
                 const output& to, float* sums) const {
    const int bytes = plan.chunk_bytes(walk.phase), tiles = static_cast<int>(walk.starts.size()),
              steps = static_cast<int>(walk.offsets.size());
    tile_shapes shapes;
    for (int t = 0; t < 4; ++t) shapes.set(t, tile_rows, tile_bytes);
    for (int t = 4; t < 6; ++t) shapes.set(t, tile_rows, bytes);
    for (int t = 6; t < 8; ++t) shapes.set(t, bytes / 4, tile_bytes);
    Unit unit(shapes);
    const std::ptrdiff_t tile = plan.weight_tile(walk.phase);
    tile_operands of{.x = {},
                     .x_pitch = std::ptrdiff_t{plan.columns.step} * plan.pixel * 2,
                     .offsets = walk.offsets.data(),
                     .steps = steps,
                     .weights = weights,
                     .tile = tile};
    const std::ptrdiff_t* const targets = walk.targets.data();
    const auto set_pixels = [&](int first, int count) {
      for (int a = 0; a < count; ++a)
        of.x[a] = x + walk.starts[static_cast<std::size_t>(first + a)];
    };
    constexpr std::ptrdiff_t cached = 262144;  // numbers of weights
    const auto at_once = static_cast<int>(std::max<std::ptrdiff_t>(1, cached / (2 * steps * tile)));
    const int pairs_end = filters.first + (filters.last - filters.first) / 2 * 2;
    for (int part = filters.first; part < pairs_end; part += 2 * at_once)
      for (int t = 0; t < tiles; t += 2) {
        const int count = std::min(2, tiles - t);
        set_pixels(t, count);
        for (int q = part; q < std::min(pairs_end, part + 2 * at_once); q += 2) {
          of.weights = weights + q * steps * tile;
          if (count == 2)
            sum_tiles<2, 2>(unit, of, sums);
          else
            sum_tiles<1, 2>(unit, of, sums);
          store_pair(plan, q, sums, count * tile_rows, targets + t * tile_rows, to);
        }
      }
    if (pairs_end == filters.last) return;
    of.weights = weights + pairs_end * steps * tile;
    for (int t = 0; t < tiles; t += 4) {
      const int count = std::min(4, tiles - t);
      set_pixels(t, count);
      if (count == 4)
        sum_tiles<4, 1>(unit, of, sums);
      else if (count == 1)
        sum_tiles<1, 1>(unit, of, sums);
      else
        count == 2 ? sum_tiles<2, 1>(unit, of, sums) : sum_tiles<3, 1>(unit, of, sums);
      store_column(plan, pairs_end, sums, count * tile_rows, targets + t * tile_rows, to);
    }
  }

  /// Sums (rows, 32) of columns q and q + 1.
  static void store_pair(const tile_correlation_plan& plan, int q, const float* sums, int rows,
                         const std::ptrdiff_t* targets, const output& to) {
    const std::ptrdiff_t block = block_pitch(plan);
    bfloat* const y = to.y + (plan.out_block == tile_channels ? q / 2 : q) * block;
    const std::ptrdiff_t second = plan.out_block == tile_channels ? tile_filters : block;
    for (int m = 0; m < rows; ++m, sums += 2 * tile_filters)
      if (targets[m] >= 0) {
        store_sixteen(sums, y + targets[m], to.add);
        store_sixteen(sums + tile_filters, y + targets[m] + second, to.add);
      }
  }
  /// Sums (rows, 16) of the last column.
  static void store_column(const tile_correlation_plan& plan, int q, const float* sums, int rows,
                           const std::ptrdiff_t* targets, const output& to) {
    bfloat* const y = to.y + q * block_pitch(plan);
    for (int m = 0; m < rows; ++m, sums += tile_filters) {
      if (targets[m] < 0) continue;
      bfloat* const pixel = y + targets[m];
      if (plan.out_block == tile_filters) {
        store_sixteen(sums, pixel, to.add);
        continue;
      }
      for (int k = 0; k < plan.out_block; ++k)
        pixel[k] = bfloat::nearest((to.add ? pixel[k].exact() : 0.0f) + sums[k]);
    }
  }
  /// Outputs that no tap reaches are zero.
  static void clear(const tile_correlation_plan& plan, int phase, const filter_range& filters,
                    const output& to) {
    const tile_phase rows = plan.row_phase(phase), columns = plan.column_phase(phase);
    const int of_block = std::max(1, plan.out_block / tile_filters);
    for (int n = 0; n < plan.together; ++n)
      for (int b = filters.first / of_block; b < filters.last / of_block; ++b) {
        bfloat* const block =
            to.y + static_cast<std::ptrdiff_t>(to.sample) * n + b * block_pitch(plan);
        for (int i = 0; i < rows.outputs; ++i)
          for (int j = 0; j < columns.outputs; ++j)
            std::fill_n(block + output_pixel(plan, rows, columns, i, j), plan.out_block, bfloat{});
      }
  }
  static std::ptrdiff_t block_pitch(const tile_correlation_plan& plan) {
    return static_cast<std::ptrdiff_t>(plan.out.pixels()) * plan.out_block;
  }

  convolution_problem p_;
  bool backward_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
