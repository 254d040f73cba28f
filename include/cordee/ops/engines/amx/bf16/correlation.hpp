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
// next ones, and a pixel's operands stay in the first-level cache from filter to filter. Sums are
// rounded, and planes filled, between the products of other kernels (sum_tiles.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/amx/bf16/sum_tiles.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/amx/tiles/phase_planes.hpp>
#include <cordee/ops/engines/amx/tiles/phase_walk.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

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
    work_between work{.sums = deferred_sums(memory.sums.reserve(deferred_sums::size))};
    std::optional<plane_filler<bfloat>> filler;
    if (!plan.in_place) {
      bfloat* const planes = memory.planes.reserve(plan.plane_size());
      work.planes = &filler.emplace(plan, x, plan.together, x_size, planes);
      x = planes;
    }
    if (!to.add && static_cast<int>(walks.size()) < plan.phases() && cell_of(plan) == 1)
      clear(plan, filters, to);
    std::vector<phase_operands> phases;
    phases.reserve(walks.size());
    for (const phase_walk& walk : walks) {
      phases.emplace_back(phase_operands{walk, weights});
      weights += plan.phase_weights(walk.phase);
    }
    // Phases whose steps are one pixel have tiles of one shape.
    const std::size_t at_once = plan.pixel == tile_channels ? walks.size() : 1;
    for (std::size_t i = 0; i < walks.size(); i += at_once)
      run_phases(plan, {phases.data() + i, at_once}, filters, x, to, work);
    work.sums.finish();
  }

  struct phase_operands {
    const phase_walk& walk;
    const bfloat* weights;

    [[nodiscard]] int tiles() const { return static_cast<int>(walk.starts.size()); }
    [[nodiscard]] int steps() const { return static_cast<int>(walk.offsets.size()); }
  };
  void run_phases(const tile_correlation_plan& plan, std::span<const phase_operands> phases,
                  const filter_range& filters, const bfloat* x, const output& to,
                  work_between& work) const {
    const int bytes = plan.chunk_bytes(phases[0].walk.phase);
    tile_shapes shapes;
    for (int t = 0; t < 4; ++t) shapes.set(t, tile_rows, tile_bytes);
    for (int t = 4; t < 6; ++t) shapes.set(t, tile_rows, bytes);
    for (int t = 6; t < 8; ++t) shapes.set(t, bytes / 4, tile_bytes);
    Unit unit(shapes);
    const int pairs_end = filters.first + (filters.last - filters.first) / 2 * 2;
    run_filters<2, 2>(unit, plan, phases, {filters.first, pairs_end}, x, to, work);
    run_filters<4, 1>(unit, plan, phases, {pairs_end, filters.last}, x, to, work);
  }
  /// By kernels of A tiles of pixels and B of filters. Phases are computed in turn, since they
  /// write neighbours of one image.
  template <int A, int B>
  static void run_filters(Unit& unit, const tile_correlation_plan& plan,
                          std::span<const phase_operands> phases, const filter_range& filters,
                          const bfloat* x, const output& to, work_between& work) {
    const std::ptrdiff_t tile = plan.weight_tile(phases[0].walk.phase);
    std::ptrdiff_t steps = 0, all_steps = 0;  // all: of a column's kernels
    int tiles = 0;
    for (const phase_operands& phase : phases) {
      steps += phase.steps();
      all_steps += std::ptrdiff_t{(phase.tiles() + A - 1) / A} * phase.steps();
      tiles = std::max(tiles, phase.tiles());
    }
    kernel_rows rows{.second = B == 1                            ? 0
                               : plan.out_block == tile_channels ? tile_filters
                                                                 : block_pitch(plan),
                     .add = to.add,
                     .cell = to.add ? 1 : cell_of(plan),
                     .row = std::ptrdiff_t{plan.out.width} * plan.out_block};
    const int at_once = columns_at_once(steps * tile, filters.last - filters.first);
    for (int part = filters.first; part < filters.last; part += at_once) {
      const filter_range now{part, std::min(filters.last, part + at_once)},
          next{now.last, std::min(filters.last, now.last + at_once)};
      for (int t = 0; t < tiles; t += A)
        for (const phase_operands& phase : phases) {
          if (t >= phase.tiles()) continue;
          const int count = std::min(A, phase.tiles() - t);
          if (work.planes != nullptr) {
            work.planes->reach(phase.walk.last_rows[static_cast<std::size_t>(t + count - 1)]);
            if (t == 0) work.share_copies(all_steps * ((now.last - part + B - 1) / B));
          }
          const std::ptrdiff_t column = phase.steps() * tile,
                               numbers = next.first == next.last
                                             ? 0
                                             : (next.last - next.first) * column / phase.tiles();
          work.ask_for(phase.weights + next.first * column + t * numbers, count * numbers,
                       (now.last - part + B - 1) / B * phase.steps());
          run_pixels<A, B>(unit, plan, phase, t, count, now, x, to, rows, work);
        }
    }
  }
  template <int A, int B>
  static void run_pixels(Unit& unit, const tile_correlation_plan& plan, const phase_operands& phase,
                         int first, int count, const filter_range& filters, const bfloat* x,
                         const output& to, kernel_rows& rows, work_between& work) {
    const std::ptrdiff_t tile = plan.weight_tile(phase.walk.phase), column = phase.steps() * tile,
                         pitch = block_pitch(plan);
    tile_operands of{.x = {},
                     .x_pitch = std::ptrdiff_t{plan.columns.step} * plan.pixel * 2,
                     .offsets = phase.walk.offsets.data(),
                     .steps = phase.steps(),
                     .weights = nullptr,
                     .tile = tile};
    for (int a = 0; a < count; ++a)
      of.x[a] = x + phase.walk.starts[static_cast<std::size_t>(first + a)];
    rows.targets = phase.walk.targets.data() + std::ptrdiff_t{first} * tile_rows;
    rows.rows = count * tile_rows;
    const bool lines = plan.out_block == tile_channels;
    for (int q = filters.first; q < filters.last; q += B) {
      of.weights = phase.weights + q * column;
      rows.y = to.y + (lines ? q / 2 : q) * pitch;
      sum_some_tiles<A, B>(count, unit, of, rows, work);
      if (plan.out_block < tile_filters) work.sums.take(plan.out_block);
    }
  }
  /// Columns whose weights pass over all pixels before the next ones do. The second-level cache, of
  /// 2 MiB, holds these, the next ones and the planes. A pass fewer leaves more time to fill
  /// planes.
  static int columns_at_once(std::ptrdiff_t column, int columns) {
    constexpr std::ptrdiff_t most = 262144, of_a_part = 81920;  // numbers
    if (column * columns <= most) return columns;
    return 2 * static_cast<int>(std::max<std::ptrdiff_t>(1, of_a_part / (2 * column)));
  }
  template <int A, int B>
  static void sum_some_tiles(int count, Unit& unit, const tile_operands& of,
                             const kernel_rows& rows, work_between& work) {
    if constexpr (A > 1)
      if (count < A) return sum_some_tiles<A - 1, B>(count, unit, of, rows, work);
    sum_tiles<A, B>(unit, of, rows, work);
  }
  /// dgrad of 1x1 windows: of t x t pixels the first alone has a tap. Their other pixels are zeroed
  /// with it where the image consists of such cells; where not, 1.
  static int cell_of(const tile_correlation_plan& plan) {
    const int t = plan.rows.output_step;
    return plan.backward && plan.rows.window == 1 && plan.rows.padding == 0 &&
                   plan.out_block == tile_channels && plan.out.height % t == 0 &&
                   plan.out.width % t == 0
               ? t
               : 1;
  }
  /// Outputs that no tap reaches are zero. Written in the order of the memory, before the others.
  static void clear(const tile_correlation_plan& plan, const filter_range& filters,
                    const output& to) {
    const int of_block = std::max(1, plan.out_block / tile_filters);
    const std::ptrdiff_t pixel = plan.out_block, row = pixel * plan.out.width;
    for (int n = 0; n < plan.together; ++n)
      for (int b = filters.first / of_block; b < filters.last / of_block; ++b) {
        bfloat* y = to.y + static_cast<std::ptrdiff_t>(to.sample) * n + b * block_pitch(plan);
        for (int h = 0; h < plan.out.height; ++h, y += row) {
          if (plan.rows.phase(h % plan.rows.output_step).taps == 0) {
            std::fill_n(y, row, bfloat{});
            continue;
          }
          for (int l = 0; l < plan.out.width; ++l)
            if (plan.columns.phase(l % plan.columns.output_step).taps == 0)
              std::fill_n(y + l * pixel, pixel, bfloat{});
        }
      }
  }
  static std::ptrdiff_t block_pitch(const tile_correlation_plan& plan) {
    return static_cast<std::ptrdiff_t>(plan.out.pixels()) * plan.out_block;
  }

  convolution_problem p_;
  bool backward_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
