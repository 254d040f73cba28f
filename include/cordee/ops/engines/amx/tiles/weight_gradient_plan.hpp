// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What wgrad of engine `amx` decides about a layer before it runs: how x and dy are copied, how
// samples, filters and channels are shared out, and its workspace.
// ops/engines/amx/bf16/weight_gradient.hpp runs it.
//
// A step of the sum is 16 positions of a pair of samples. A position is a pixel of dy, or lies
// behind the end of a row, where dy's copy is zero: rows are `pitch` positions apart, so that every
// tap of the window reads the same planes of x at an offset. The rows of several pairs alternate,
// (rows, pairs, pitch), which needs no padding between them. Behind a stride t there are t x t
// planes, one for each remainder of row and column.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Cycles of the model: a product of full tiles; the copies of 16 positions x 16 channels of a pair
/// of samples, transposed or not; and a tile of a group's sums in the workspace, which is in no
/// cache when it is written.
inline constexpr int tile_product_cycles = 16, tile_transposition_cycles = 192,
                     tile_copy_cycles = 144, group_sum_cycles = 250;

/// Words are pairs of bf16, of two samples. Tiles have 16 filters, or 16 channels.
struct amx_gradient_plan {
  convolution_problem layer{};
  extent out{};
  int samples = 0;

  bool image = false;  // of few channels: the S C words under a window row are columns of tiles
  bool column_copies = false;             // a plane for each window column: pitch = W'
  int row_planes = 1, column_planes = 1;  // of each channel tile
  int row_reach = 0, column_reach = 0;    // of taps, in rows and positions of a plane
  int pitch = 0;                          // positions from one row of a plane to the next
  int filter_tiles = 0, channel_tiles = 0;
  int taps = 1;                             // of a channel tile: R S, or R of an image
  int filter_parts = 1, channel_parts = 1;  // tasks of a group, in pairs of tiles
  int groups = 1;      // of pairs of samples or of rows of one, each with sums of its own
  int row_groups = 1;  // of each pair; more than one only if each group has one pair
  int pairs_at_once = 1, rows_at_once = 1;  // of a chunk; several pairs only of whole images

  /// Rows of dy, of pairs of samples, that are copied and multiplied together.
  struct chunk {
    int first_pair = 0, pairs = 1, first_row = 0, rows = 1;
  };

  [[nodiscard]] constexpr int pairs() const { return (samples + 1) / 2; }
  /// Numbers of fp32.
  [[nodiscard]] constexpr std::size_t workspace() const {
    return groups > 1 ? static_cast<std::size_t>(groups) * sums_size() : 0;
  }
  /// fp32 sums of one group: (filter tiles, column_tiles(), 16 filters, 16 channels).
  [[nodiscard]] constexpr std::size_t sums_size() const {
    return static_cast<std::size_t>(filter_tiles) * static_cast<std::size_t>(column_tiles()) *
           tile_rows * tile_rows;
  }
  [[nodiscard]] constexpr int column_tiles() const { return channel_tiles * taps; }
  [[nodiscard]] constexpr int filter_pairs() const { return (filter_tiles + 1) / 2; }
  [[nodiscard]] constexpr int channel_pairs() const { return (channel_tiles + 1) / 2; }

  /// Words from one position to the next.
  [[nodiscard]] constexpr int position_words() const {
    return image ? layer.stride * layer.in.channels : tile_rows;
  }
  [[nodiscard]] constexpr int steps(const chunk& c) const {
    return (c.rows * c.pairs * pitch + tile_rows - 1) / tile_rows;
  }
  /// Words of a plane, with what the last step reads behind it.
  [[nodiscard]] constexpr std::ptrdiff_t plane_words(const chunk& c) const {
    const std::ptrdiff_t positions =
        (std::ptrdiff_t{c.rows} + row_reach) * c.pairs * pitch + tile_rows - 1 + column_reach;
    const std::ptrdiff_t words =
        positions * position_words() + (image ? channel_tiles * tile_rows : 0);
    return (words + tile_rows - 1) / tile_rows * tile_rows;
  }
  /// Words of so many channel tiles, (tiles, row_planes, column_planes, plane_words).
  [[nodiscard]] constexpr std::ptrdiff_t planes_words(int tiles, const chunk& c) const {
    return std::ptrdiff_t{image ? 1 : tiles} * row_planes * column_planes * plane_words(c);
  }
  /// Words of so many filter tiles, (tiles, steps, 16 filters, 16 positions).
  [[nodiscard]] constexpr std::ptrdiff_t gradient_words(int tiles, const chunk& c) const {
    return std::ptrdiff_t{tiles} * steps(c) * tile_rows * tile_rows;
  }

  /// A column of tiles: pairs of channel tiles outermost, then taps in dw's order, then the tiles
  /// of the pair.
  struct column {
    int channel_tile = 0, r = 0, s = 0;
  };
  [[nodiscard]] constexpr int first_column(int channel_pair) const {
    return std::min(2 * channel_pair, channel_tiles) * taps;
  }
  [[nodiscard]] constexpr column column_at(int i) const {
    const int pair = i / (2 * taps), width = std::min(2, channel_tiles - 2 * pair),
              rest = i - 2 * taps * pair, tap = rest / width;
    if (image) return {2 * pair + rest % width, tap, 0};
    return {2 * pair + rest % width, tap / layer.window, tap % layer.window};
  }
  /// Offset of its words at position 0, where the planes begin with those of first_tile.
  [[nodiscard]] constexpr std::ptrdiff_t offset_of(const column& at, int first_tile,
                                                   const chunk& c) const {
    const int t = layer.stride, tile = image ? 0 : at.channel_tile - first_tile,
              plane = (tile * row_planes + at.r % t) * column_planes +
                      (column_copies ? at.s : at.s % t);
    const std::ptrdiff_t row = std::ptrdiff_t{at.r / t} * c.pairs * pitch,
                         position = row + (column_copies ? 0 : at.s / t);
    return plane * plane_words(c) + position * position_words() +
           (image ? at.channel_tile * tile_rows : 0);
  }

  /// f(chunk) in the order of the sum.
  template <class F>
  constexpr void for_each_chunk(int group, const F& f) const {
    const auto split = [](int all, int i, int parts) {
      return static_cast<int>(std::int64_t{all} * i / parts);
    };
    const int of_pairs = group / row_groups, of_rows = group % row_groups,
              pair_groups = groups / row_groups, end = split(pairs(), of_pairs + 1, pair_groups),
              last_row = split(out.height, of_rows + 1, row_groups);
    for (int n = split(pairs(), of_pairs, pair_groups); n < end; n += pairs_at_once)
      for (int i = split(out.height, of_rows, row_groups); i < last_row; i += rows_at_once)
        f(chunk{n, std::min(pairs_at_once, end - n), i, std::min(rows_at_once, last_row - i)});
  }

  /// Modelled cycles of a whole chunk, in all parts.
  [[nodiscard]] constexpr double cycles(const chunk& c) const {
    const double products = double(filter_tiles) * column_tiles() * steps(c),
                 transpositions = double(filter_tiles) * channel_parts * steps(c),
                 copies = double(planes_words(channel_tiles, c)) * filter_parts /
                          (tile_rows * tile_rows);
    return tile_product_cycles * products + tile_transposition_cycles * transpositions +
           tile_copy_cycles * copies;
  }
};

/// The plan with planes of one kind.
constexpr amx_gradient_plan plan_amx_gradient(const convolution_problem& p, int samples,
                                              bool column_copies) {
  // Shares of an L2 cache of 2 MiB: a task's copies of a chunk, and its sums.
  constexpr std::ptrdiff_t cache = 1280 * 1024,
                           most_sums = 768 * 1024 / (tile_bytes * tile_rows);  // tiles
  constexpr int tasks = 8;  // or more, of whole groups

  amx_gradient_plan plan{.layer = p, .out = p.out(), .samples = samples};
  const auto ceil_of = [](int a, int b) { return (a + b - 1) / b; };
  const auto tiles_of = [&](int channels) {
    const int block = tile_block_size(channels);
    return block < 32 ? ceil_of(channels, 16) : 2 * ceil_of(channels, 32);
  };
  const int t = p.stride, window = p.window;
  plan.image = p.in.channels <= 4;
  plan.column_copies = column_copies && !plan.image;
  plan.row_planes = std::min(t, window);
  plan.column_planes = plan.image ? 1 : plan.column_copies ? window : std::min(t, window);
  plan.row_reach = (window - 1) / t;
  plan.column_reach = plan.column_copies ? 0 : (window - 1) / t;
  // Zeros to the right of a row are those to the left of the next one.
  int shared = plan.column_reach;
  for (int b = 0; b < t; ++b) {
    const int all = plan.out.width + plan.column_reach,
              left = std::max(0, ceil_of(std::max(0, p.padding - b), t)),
              right = std::max(0, all - ceil_of(std::max(0, p.in.width + p.padding - b), t));
    shared = std::min({shared, left, right});
  }
  plan.pitch = plan.out.width + plan.column_reach - shared;
  plan.filter_tiles = tiles_of(p.filters);
  plan.channel_tiles =
      plan.image ? ceil_of(window * p.in.channels, tile_rows) : tiles_of(p.in.channels);
  plan.taps = plan.image ? window : window * window;

  // Each part of the channels transposes dy again, each part of the filters copies x again, and
  // each group has sums of its own. As many tasks however many workers there are, so that the
  // groups and with them the results' bits do not depend on the workers.
  const int pairs = std::max(1, plan.pairs()), height = plan.out.height,
            most_groups = pairs < tasks && height >= 2 * tasks ? tasks : std::min(tasks, pairs);
  double least = -1;
  for (int groups = 1; groups <= most_groups; groups *= 2) {
    const int row_groups = groups <= pairs ? 1 : ceil_of(groups, pairs),
              all_groups = row_groups == 1 ? groups : pairs * row_groups;
    for (int filter_parts = 1; filter_parts <= plan.filter_pairs(); ++filter_parts) {
      const std::ptrdiff_t filters = std::min(plan.filter_tiles,
                                              2 * ceil_of(plan.filter_pairs(), filter_parts)),
                           channels_that_fit = std::clamp<std::ptrdiff_t>(
                               most_sums / (filters * 2 * plan.taps), 1, plan.channel_pairs());
      const int channel_parts =
          plan.image
              ? 1
              : std::clamp(ceil_of(tasks, all_groups * filter_parts),
                           ceil_of(plan.channel_pairs(), static_cast<int>(channels_that_fit)),
                           plan.channel_pairs());
      const int of_all = all_groups * filter_parts * channel_parts;
      const double steps = double(pairs) * height * plan.pitch / tile_rows,
                   copies = double(tile_transposition_cycles) * plan.filter_tiles * channel_parts +
                            double(tile_copy_cycles) * plan.channel_tiles * plan.row_planes *
                                plan.column_planes * filter_parts,
                   sums = all_groups == 1 ? 0.0
                                          : double(group_sum_cycles) * all_groups *
                                                plan.filter_tiles * plan.column_tiles(),
                   idle = of_all < tasks ? double(tasks) / of_all : 1.0,
                   cost = (steps * copies + sums) * idle;
      if (least >= 0 && cost >= least) continue;
      least = cost;
      plan.filter_parts = filter_parts;
      plan.channel_parts = channel_parts;
      plan.groups = all_groups;
      plan.row_groups = row_groups;
    }
  }

  const int filters =
                std::min(plan.filter_tiles, 2 * ceil_of(plan.filter_pairs(), plan.filter_parts)),
            channels =
                std::min(plan.channel_tiles, 2 * ceil_of(plan.channel_pairs(), plan.channel_parts));
  const std::ptrdiff_t sums = std::ptrdiff_t{filters} * channels * plan.taps,
                       most_words = (cache - sums * tile_bytes * tile_rows) / 4;
  const auto fits = [&](const amx_gradient_plan::chunk& c) {
    return plan.planes_words(channels, c) + plan.gradient_words(filters, c) <= most_words;
  };
  // The chunk of at most so many that leaves the least work: the last step of each is not full.
  const auto best_of = [](int all, int most, const auto& cycles) {
    int best = 1;
    double fewest = 0;
    for (int n = most; n > 0 && 2 * n > most; --n) {
      const double total = all / n * cycles(n) + (all % n > 0 ? cycles(all % n) : 0);
      if (n < most && total >= fewest) continue;
      best = n;
      fewest = total;
    }
    return best;
  };
  const int of_group = ceil_of(pairs, plan.groups), group_rows = ceil_of(height, plan.row_groups);
  const auto images = [&](int n) { return amx_gradient_plan::chunk{0, n, 0, group_rows}; };
  const auto rows = [](int n) { return amx_gradient_plan::chunk{0, 1, 0, n}; };
  int most = 1;
  if (fits(images(1))) {
    while (most < of_group && fits(images(most + 1))) ++most;
    plan.pairs_at_once = best_of(of_group, most, [&](int n) { return plan.cycles(images(n)); });
    plan.rows_at_once = group_rows;
  } else {
    while (fits(rows(most + 1))) ++most;
    plan.rows_at_once = best_of(group_rows, std::min(most, group_rows),
                                [&](int n) { return plan.cycles(rows(n)); });
  }
  return plan;
}

/// One plane for all window columns, with positions behind each row, or a plane for each: which
/// takes fewer cycles.
constexpr amx_gradient_plan plan_amx_gradient(const convolution_problem& p, int samples) {
  const amx_gradient_plan one = plan_amx_gradient(p, samples, false);
  if (one.image || one.column_reach == 0) return one;
  const amx_gradient_plan each = plan_amx_gradient(p, samples, true);
  const auto cycles = [](const amx_gradient_plan& plan) {
    const amx_gradient_plan::chunk c{0, plan.pairs_at_once, 0, plan.rows_at_once};
    return plan.cycles(c) / (double(c.pairs) * c.rows);
  };
  return cycles(each) < cycles(one) ? each : one;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
