// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What fprop and dgrad of engine `amx` decide about a layer before they run: which numbers a row of
// a tile holds, where they lie, and which pixels are computed together.
//
// The rows of a tile of A are 16 pixels of the output at one distance in memory. For that an input
// is copied with its padding into planes, unless it lies so already (`in_place`):
//
//   (C/B, rows modulo t, rows / t, columns / t, samples, t, B)     t: the stride
//
// Pixels to the right of one row's image are those to the left of the next one's, and both are
// zero. So output pixel (i, j) of sample n has the position  (i P + j) G + n,  with G samples
// together and P columns of the output to a row of the plane; its taps are at constant distances
// from t B times this. Positions between rows are computed and dropped.
//
// A step multiplies at most 64 bytes of each pixel: one tap, or of fewer than 32 channels a part of
// the S B adjacent numbers of a window row. Where these are not a multiple of the part, the last
// one multiplies up to six numbers beyond them by zero: an infinity there makes a NaN of the sum
// of the pixel before it, too. The input gradient of a layer of stride t is t x t
// correlations of stride 1, its phases: each of the remainders of an output row's and column's
// index modulo t, with the taps that reach it, in the order of the pixels that they read.
#pragma once

#include <array>
#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

inline constexpr int tile_channels = 32;  ///< bf16 of a row of a tile: a pixel of a block.
inline constexpr int tile_filters = 16;   ///< Columns of a tile of B.

/// Channels to a block of bf16 activations in engine `amx`.
constexpr int tile_block_size(int channels) {
  return channels <= 4 ? channels : channels < tile_channels ? 16 : tile_channels;
}

/// One remainder modulo the step of the output along rows or columns. Output i reads the plane's
/// pixels  i * step + first .. + taps - 1,  by the taps first_tap, first_tap + tap_step, ...
struct tile_phase {
  int output = 0, outputs = 0;
  int first = 0, taps = 0;
  int first_tap = 0, tap_step = 1;
};

/// Rows or columns of a layer. The plane's pixel u is pixel  first + u * spacing  of the input.
struct tile_axis {
  int inputs = 0, outputs = 0, window = 1, stride = 1, padding = 0;
  bool backward = false;

  int first = 0, spacing = 1;
  int step = 1;         // of the plane's pixels from output to output of one phase
  int output_step = 1;  // of outputs from one to the next of a phase
  int reached = 0;      // pixels of the plane that taps reach
  int left = 0;         // of these zeros before the image,
  int inside = 0;       // pixels of the image, and zeros

  [[nodiscard]] constexpr int right() const { return reached - left - inside; }

  /// Phase a of output_step.
  [[nodiscard]] constexpr tile_phase phase(int a) const {
    if (!backward) return {0, outputs, 0, window, 0, 1};
    tile_phase p{.output = a, .outputs = (outputs - a + stride - 1) / stride, .tap_step = -stride};
    const int lowest = (a + padding) % stride;
    if (lowest >= window || p.outputs <= 0) return p;
    p.taps = (window - 1 - lowest) / stride + 1;
    p.first_tap = lowest + (p.taps - 1) * stride;
    p.first = (a + padding - p.first_tap) / stride - first;  // exact: the remainder is 0
    return p;
  }
};

constexpr tile_axis make_tile_axis(int inputs, int outputs, const convolution_problem& p,
                                   bool backward) {
  tile_axis axis{inputs, outputs, p.window, p.stride, p.padding, backward};
  if (!backward) {
    const bool gathers = p.window == 1;  // the pixels behind a stride lie together in the plane
    axis.first = -p.padding;
    axis.spacing = gathers ? p.stride : 1;
    axis.step = gathers ? 1 : p.stride;
    axis.reached = (outputs - 1) * axis.step + p.window;
  } else {
    axis.output_step = p.stride;
    int low = 0, high = -1;
    for (int a = 0; a < p.stride; ++a) {
      const tile_phase phase = axis.phase(a);  // with first = 0 still
      if (phase.taps == 0) continue;
      const int last = phase.first + phase.outputs + phase.taps - 2;
      low = high < low ? phase.first : std::min(low, phase.first);
      high = std::max(high, last);
    }
    axis.first = low;
    axis.reached = std::max(0, high - low + 1);
  }
  const auto first_inside = [&](int from) {  // the first u with first + u * spacing >= from
    return from <= axis.first ? 0 : (from - axis.first + axis.spacing - 1) / axis.spacing;
  };
  axis.left = std::min(axis.reached, first_inside(0));
  axis.inside = std::clamp(first_inside(inputs) - axis.left, 0, axis.reached - axis.left);
  return axis;
}

/// Sizes and distances count numbers, unless they say otherwise.
struct tile_correlation_plan {
  bool backward = false;  // dgrad: reads dy, writes dx
  extent in{}, out{};     // what is read and written
  tile_axis rows{}, columns{};
  int in_block = 1, out_block = 1;  // channels to a block in memory
  int pixel = 1;                    // numbers of a block's pixel in the plane
  int in_blocks = 0;
  int filter_columns = 0;  // of 16 filters
  bool in_place = false;   // the input's block is the plane
  int together = 1;        // samples in one plane, G
  int row_pixels = 0;      // of the plane, from row to row of one sample

  [[nodiscard]] constexpr int phases() const { return rows.output_step * columns.output_step; }
  [[nodiscard]] constexpr tile_phase row_phase(int phase) const {
    return rows.phase(phase / columns.output_step);
  }
  [[nodiscard]] constexpr tile_phase column_phase(int phase) const {
    return columns.phase(phase % columns.output_step);
  }
  [[nodiscard]] constexpr bool is_empty(int phase) const {
    return row_phase(phase).taps == 0 || column_phase(phase).taps == 0;
  }

  // The plane.
  [[nodiscard]] constexpr int planes() const { return std::min(rows.step, rows.reached); }
  [[nodiscard]] constexpr int plane_rows() const {
    return (rows.reached + rows.step - 1) / rows.step;
  }
  [[nodiscard]] constexpr std::ptrdiff_t row_size() const {
    return std::ptrdiff_t{row_pixels} * together * pixel;
  }
  /// From block to block of the channels.
  [[nodiscard]] constexpr std::ptrdiff_t block_size() const {
    if (in_place) return static_cast<std::ptrdiff_t>(in.pixels()) * pixel;
    return row_size() * planes() * plane_rows();
  }
  /// Offset of the plane's pixel at row u and column x, for sample 0.
  [[nodiscard]] constexpr std::ptrdiff_t at(int u, int x) const {
    const int step = columns.step;
    return (u % rows.step * std::ptrdiff_t{plane_rows()} + u / rows.step) * row_size() +
           (std::ptrdiff_t{x / step} * together * step + x % step) * pixel;
  }
  /// Zeros behind the last block, which tiles read.
  [[nodiscard]] constexpr std::ptrdiff_t tail() const {
    return row_size() + std::ptrdiff_t{2} * tile_rows * columns.step * pixel + tile_channels;
  }
  [[nodiscard]] constexpr std::size_t plane_size() const {
    return static_cast<std::size_t>(block_size() * in_blocks + tail());
  }

  // Steps of a phase, in the order (channel block, tap row, chunk of the taps in a row).
  [[nodiscard]] constexpr int chunks(int phase) const {
    return (column_phase(phase).taps * pixel * 2 + tile_bytes - 1) / tile_bytes;
  }
  /// Bytes of one pixel in a chunk, a multiple of 4.
  [[nodiscard]] constexpr int chunk_bytes(int phase) const {
    const int bytes = column_phase(phase).taps * pixel * 2, n = std::max(1, chunks(phase));
    return ((bytes + n - 1) / n + 3) / 4 * 4;
  }
  [[nodiscard]] constexpr int steps(int phase) const {
    return is_empty(phase) ? 0 : in_blocks * row_phase(phase).taps * chunks(phase);
  }
  /// From the position of an output to what step `i` multiplies.
  [[nodiscard]] constexpr std::ptrdiff_t step_offset(int phase, int i) const {
    const int n = chunks(phase), chunk = i % n, taps = row_phase(phase).taps, r = i / n % taps;
    const int u = row_phase(phase).first + r, x = column_phase(phase).first;
    const std::ptrdiff_t block = i / n / taps * block_size();
    if (pixel == tile_channels) return block + at(u, x + chunk);
    return block + at(u, x) + std::ptrdiff_t{chunk} * (chunk_bytes(phase) / 2);
  }
  /// Numbers of a tile of B: chunk_bytes / 4 rows of 16 pairs.
  [[nodiscard]] constexpr std::ptrdiff_t weight_tile(int phase) const {
    return std::ptrdiff_t{chunk_bytes(phase)} / 4 * tile_filters * 2;
  }
  /// The packed weights: for each phase (filter_columns / 2, steps, 2, weight_tile).
  [[nodiscard]] constexpr std::ptrdiff_t phase_weights(int phase) const {
    return filter_columns * steps(phase) * weight_tile(phase);
  }
  [[nodiscard]] constexpr std::size_t packed_size() const {
    std::ptrdiff_t size = 0;
    for (int phase = 0; phase < phases(); ++phase) size += phase_weights(phase);
    return static_cast<std::size_t>(size);
  }

  // Tiles of a phase, of 16 positions each.
  [[nodiscard]] constexpr int output_pitch() const { return row_pixels / columns.step; }
  /// Whether each row of the output begins a tile: none lies between rows.
  [[nodiscard]] constexpr bool by_rows(int phase) const {
    return column_phase(phase).outputs * together % tile_rows == 0;
  }
  [[nodiscard]] constexpr int positions(int phase) const {
    return ((row_phase(phase).outputs - 1) * output_pitch() + column_phase(phase).outputs) *
           together;
  }
  [[nodiscard]] constexpr int tiles(int phase) const {
    if (by_rows(phase))
      return row_phase(phase).outputs * (column_phase(phase).outputs * together / tile_rows);
    return (positions(phase) + tile_rows - 1) / tile_rows;
  }
  /// The position of a tile's first row. The last one in place ends with the image.
  [[nodiscard]] constexpr int tile_start(int phase, int tile) const {
    if (!by_rows(phase))
      return in_place ? std::min(tile * tile_rows, positions(phase) - tile_rows) : tile * tile_rows;
    const int to_row = column_phase(phase).outputs * together / tile_rows;
    return tile / to_row * output_pitch() * together + tile % to_row * tile_rows;
  }
  /// Products of two tiles over a plane's samples, and those that would do if no row of A were
  /// dropped and no number a zero of the layout.
  [[nodiscard]] constexpr std::int64_t products() const {
    std::int64_t n = 0;
    for (int phase = 0; phase < phases(); ++phase)
      if (!is_empty(phase)) n += std::int64_t{tiles(phase)} * steps(phase) * filter_columns;
    return n;
  }
  /// Cycles of a sample: a product takes 16, and a line of 64 bytes that is copied 4.
  [[nodiscard]] constexpr double cycles() const {
    const double copied = in_place ? 0 : static_cast<double>(plane_size()) * 2 / 64 * 4;
    return (16.0 * static_cast<double>(products()) + copied) / together;
  }
};

/// One direction of a layer. `samples` at most are computed together.
constexpr tile_correlation_plan plan_tile_correlation(const convolution_problem& p, bool backward,
                                                      int samples) {
  tile_correlation_plan plan{
      .backward = backward, .in = backward ? p.out() : p.in, .out = backward ? p.in : p.out()};
  plan.rows = make_tile_axis(plan.in.height, plan.out.height, p, backward);
  plan.columns = make_tile_axis(plan.in.width, plan.out.width, p, backward);
  const int channels = plan.in.channels;
  plan.in_block = tile_block_size(channels);
  plan.out_block = tile_block_size(plan.out.channels);
  plan.pixel = channels == 1 ? 2 : channels == 3 ? 4 : plan.in_block;  // pairs, and a power of two
  plan.in_blocks = static_cast<int>(channel_blocks(channels, plan.in_block));
  plan.filter_columns = plan.out_block == tile_channels
                            ? 2 * static_cast<int>(channel_blocks(plan.out.channels, tile_channels))
                            : static_cast<int>(channel_blocks(plan.out.channels, tile_filters));

  // Rows share the zeros between them, but no two outputs share a position.
  const tile_axis& columns = plan.columns;
  int outputs = 0;
  for (int a = 0; a < columns.output_step; ++a)
    outputs = std::max(outputs, columns.phase(a).outputs);
  const int shared = columns.inside == 0 ? columns.reached
                                         : columns.inside + std::max(columns.left, columns.right());
  plan.row_pixels =
      std::max({1, outputs, (shared + columns.step - 1) / columns.step}) * columns.step;

  tile_correlation_plan best = plan;
  const auto fits = [&](const tile_axis& axis) {
    return axis.first == 0 && axis.step == 1 && axis.spacing == 1 && axis.right() == 0;
  };
  if (plan.pixel == plan.in_block && fits(plan.rows) && fits(plan.columns)) {
    tile_correlation_plan in_place = plan;
    in_place.in_place = true;
    in_place.row_pixels = plan.in.width;
    bool whole = true;  // no tile has more than the image's pixels, no step more than the taps'
    for (int phase = 0; phase < plan.phases(); ++phase)
      whole &= plan.is_empty(phase) || (in_place.positions(phase) >= tile_rows &&
                                        plan.chunks(phase) * plan.chunk_bytes(phase) ==
                                            plan.column_phase(phase).taps * plan.pixel * 2);
    if (whole) best = in_place;
  }
  constexpr std::size_t cached = std::size_t{5} << 18;  // bytes, of a second-level cache of 2 MiB
  if (plan.pixel == tile_channels)
    for (plan.together = 2; plan.together <= std::min(samples, tile_rows); plan.together *= 2)
      if (plan.plane_size() * 2 <= cached && plan.cycles() < 0.98 * best.cycles()) best = plan;
  return best;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
