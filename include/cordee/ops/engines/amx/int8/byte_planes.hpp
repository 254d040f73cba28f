// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A sample as engine `amx`'s convolution of bytes reads it: copied with its padding, so that the 16
// rows of a tile, the windows of 16 pixels, lie at one pitch, and a tile's 64 bytes of a row are
// adjacent:
//
//   (C/B, phases, rows, columns, B)    row q of phase p is row q t + p of the padded sample
//
// with a stride of t, t phases, and B = 16, 32 or 64 channels to a pixel: the fewest that hold all,
// or 64. The window of output pixel (i, j) in window row r is  S B  adjacent bytes,
// (i columns + j t) B  behind the first of row r / t in phase r % t. So every output pixel of a
// band is at  i pitch + j  of one sequence, in steps of t B bytes, with pitch = columns / t; those
// with j beyond the output's width are summed and dropped: (S - 1) / t of each row, less what the
// padding on the right of a row and on the left of the next have in common.
//
// With at most four channels, t consecutive rows are interleaved, a column as t C bytes: a window
// row is then  S t C  adjacent bytes, and there are R / t of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

#if defined(__AVX512F__)
/// Four times 16 bytes as one register: one store for four, which would limit the copy.
[[gnu::always_inline]] inline vec<std::uint8_t, 64> join_blocks(const std::uint8_t* a,
                                                                const std::uint8_t* b,
                                                                const std::uint8_t* c,
                                                                const std::uint8_t* d) {
  using block = vec<std::uint8_t, 16>;
  vec<std::uint8_t, 32> low, high;
  vec<std::uint8_t, 64> all;
  __asm__("vinserti128 $1, %2, %t1, %0"
          : "=x"(low)
          : "x"(load<std::uint8_t, 16>(a)), "m"(*reinterpret_cast<const block*>(b)));
  __asm__("vinserti128 $1, %2, %t1, %0"
          : "=x"(high)
          : "x"(load<std::uint8_t, 16>(c)), "m"(*reinterpret_cast<const block*>(d)));
  __asm__("vinserti64x4 $1, %2, %g1, %0" : "=v"(all) : "v"(low), "v"(high));
  return all;
}
#endif

/// The form of the copy, and the copying. Sizes are in bytes; `rows` counts rows of the output.
template <int V>
struct byte_planes {
  explicit byte_planes(const convolution_problem& layer)
      : strided(layer),
        problem(strided.dense_layer(layer)),
        few(layer.in.channels <= 4),
        block(channel_block_size<V>(layer.in.channels)),
        blocks(static_cast<int>(channel_blocks(layer.in.channels, block))),
        phases(few ? 1 : problem.stride),
        cell(few ? problem.stride * block : cell_of(layer.in.channels)),
        groups(few ? 1 : (layer.in.channels + cell - 1) / cell),
        window_rows(few ? steps(problem.window) : problem.window),
        shared(few ? 0 : std::clamp(overhang(), 0, std::min(problem.padding, problem.window - 1))),
        pitch(problem.out().width + steps(problem.window - shared) - 1) {}

  /// Adjacent bytes of a window row, and the tiles of 64 that hold them.
  [[nodiscard]] int window_bytes() const { return problem.window * cell; }
  [[nodiscard]] int window_tiles() const { return (window_bytes() + tile_bytes - 1) / tile_bytes; }
  /// From a pixel of the output to the next.
  [[nodiscard]] std::ptrdiff_t step() const { return std::ptrdiff_t{problem.stride} * cell; }
  [[nodiscard]] std::ptrdiff_t row() const { return pitch * step(); }
  [[nodiscard]] std::ptrdiff_t phase(int rows) const {
    return (rows + steps(problem.window) - 1) * row();
  }
  [[nodiscard]] std::ptrdiff_t plane(int rows) const { return phases * phase(rows); }
  [[nodiscard]] std::size_t size(int rows) const {
    return static_cast<std::size_t>(groups * plane(rows));
  }
  /// Behind the copies: what tiles read beyond them, and rows of few channels before they are
  /// interleaved.
  [[nodiscard]] std::size_t tail() const {
    return static_cast<std::size_t>(2 * tile_rows * step() + window_bytes() + tile_bytes) +
           static_cast<std::size_t>(few ? problem.stride * line() : 0);
  }
  /// Whether windows are single pixels, so that rows and samples follow each other without gaps:
  /// (C/B, samples, rows, columns, B).
  [[nodiscard]] bool pointwise() const {
    return problem.window == 1 && problem.stride == 1 && problem.padding == 0;
  }

  /// Place of a weight: which window row of all groups, and which byte of it.
  struct place {
    int row, byte;
  };
  [[nodiscard]] place place_of(int channel, int r, int s) const {
    const int t = problem.stride;
    if (few) return {r / t, s * cell + r % t * block + channel};
    return {channel / cell * window_rows + r, s * cell + channel % cell};
  }

  /// Copies what `rows` rows of the output from `first` on read. `to_bytes` has quantize(x, q), of
  /// V numbers, and byte_of(x); it is not called where x are bytes.
  template <class In, class ToBytes>
  void copy(const In* x,  // (C/V, H, W, V)
            const ToBytes& to_bytes, int zero_point, int first, int rows,
            std::uint8_t* to,            // (C/B, phases, rows, columns, B)
            std::ptrdiff_t group_pitch,  // from a group of B channels to the next
            std::uint8_t* tail) const {
    const int t = problem.stride, plane_rows = rows + steps(problem.window) - 1;
    if (few) {
      for (int q = 0; q < plane_rows; ++q)
        copy_few(x, to_bytes, zero_point, (first + q) * t, to + q * row(), tail);
      return;
    }
    for (int g = 0; g < groups; ++g)
      for (int p = 0; p < phases; ++p)
        for (int q = 0; q < plane_rows; ++q)
          copy_row(x, to_bytes, zero_point, g, (first + q) * t + p,
                   to + g * group_pitch + p * phase(rows) + q * row());
    fill(to + groups * group_pitch, zero_point, std::ptrdiff_t{shared} * cell);
  }

  strided_pixels<V> strided;
  convolution_problem problem;  // without that stride
  bool few;                     // at most four channels
  int block, blocks;            // channels to a block of the input, and blocks
  int phases;
  int cell;              // bytes of a column
  int groups;            // of B channels
  int window_rows;       // of a group
  int shared;            // columns of padding that end a row and begin the next
  std::ptrdiff_t pitch;  // of the output's rows, in pixels

 private:
  static constexpr int cell_of(int channels) {
    return channels <= 16 ? 16 : channels <= 32 ? 32 : 64;
  }
  /// Strides that cover n columns or rows.
  [[nodiscard]] int steps(int n) const { return (n + problem.stride - 1) / problem.stride; }
  [[nodiscard]] int columns() const { return static_cast<int>(pitch) * problem.stride; }
  /// A row of few channels, with room for the last copy of four bytes.
  [[nodiscard]] std::ptrdiff_t line() const { return std::ptrdiff_t{columns()} * block + 4; }
  /// Columns that windows read on the right of the input.
  [[nodiscard]] int overhang() const {
    return (problem.out().width - 1) * problem.stride + problem.window - problem.padding -
           problem.in.width;
  }
  [[nodiscard]] bool inside(int h) const { return h >= 0 && h < problem.in.height; }
  /// A row begins with left() columns of padding, then middle() columns of the input.
  [[nodiscard]] int left() const { return std::min(problem.padding, columns()); }
  [[nodiscard]] int middle() const { return std::min(columns() - left(), problem.in.width); }

  static void fill(std::uint8_t* to, int byte, std::ptrdiff_t n) {
    std::memset(to, byte, static_cast<std::size_t>(n));
  }
  /// A row of B channels, (columns, B).
  template <class In, class ToBytes>
  void copy_row(const In* x, const ToBytes& to_bytes, int zero_point, int group, int padded_row,
                std::uint8_t* to) const {
    const int h = padded_row - problem.padding;
    if (!inside(h)) return fill(to, zero_point, row());
    const std::ptrdiff_t begin = std::ptrdiff_t{left()} * cell,
                         end = begin + std::ptrdiff_t{middle()} * cell;
    fill(to, zero_point, begin);
    fill(to + end, zero_point, row() - end);
    const int per_cell = cell / V, b = group * per_cell, count = std::min(per_cell, blocks - b);
    const std::ptrdiff_t step = std::ptrdiff_t{strided.stride} * V,
                         plane = std::ptrdiff_t{strided.in.height} * strided.in.width * V;
    const In* const from = x + b * plane + std::ptrdiff_t{h} * strided.in.width * step;
    copy_pixels(from, step, plane, count, to_bytes, to + begin);
  }
  template <class In, class ToBytes>
  void copy_pixels(const In* from, std::ptrdiff_t step, std::ptrdiff_t plane, int count,
                   const ToBytes& to_bytes, std::uint8_t* to) const {
    const int n = middle();
    if constexpr (std::same_as<In, std::uint8_t>) {
#if defined(__AVX512F__)
      if constexpr (V == 16)
        if (count == 4) {
          for (int j = 0; j < n; ++j, from += step, to += 64)
            store<std::uint8_t, 64>(
                to, join_blocks(from, from + plane, from + 2 * plane, from + 3 * plane));
          return;
        }
#endif
      for (int b = 0; b < count; ++b)
        for (int j = 0; j < n; ++j)
          store<std::uint8_t, V>(to + std::ptrdiff_t{j} * cell + b * V,
                                 load<std::uint8_t, V>(from + b * plane + j * step));
    } else {
      const ToBytes local = to_bytes;  // in registers: bytes could alias an object's members
      for (int b = 0; b < count; ++b)
        for (int j = 0; j < n; ++j)
          local.quantize(from + b * plane + j * step, to + std::ptrdiff_t{j} * cell + b * V);
    }
  }

  /// The t rows from a padded one on, of few channels, (columns, t, C).
  template <class In, class ToBytes>
  void copy_few(const In* x, const ToBytes& to_bytes, int zero_point, int padded_row,
                std::uint8_t* to, std::uint8_t* tail) const {
    const int t = problem.stride;
    if (t == 1) return copy_line(x, to_bytes, zero_point, padded_row, to);
    for (int p = 0; p < t; ++p)
      copy_line(x, to_bytes, zero_point, padded_row + p, tail + p * line());
    // Four bytes at once: those too many are overwritten by the next, or lie behind all.
    for (std::ptrdiff_t j = 0; j < columns(); ++j)
      for (int p = 0; p < t; ++p, to += block) std::memcpy(to, tail + p * line() + j * block, 4);
  }
  /// One row of few channels, (columns, C).
  template <class In, class ToBytes>
  void copy_line(const In* x, const ToBytes& to_bytes, int zero_point, int padded_row,
                 std::uint8_t* to) const {
    const int h = padded_row - problem.padding;
    const std::ptrdiff_t all = std::ptrdiff_t{columns()} * block;
    if (!inside(h)) return fill(to, zero_point, all);
    const std::ptrdiff_t begin = std::ptrdiff_t{left()} * block,
                         n = std::ptrdiff_t{middle()} * block;
    const std::ptrdiff_t at = std::ptrdiff_t{h} * strided.stride * strided.in.width * block;
    fill(to, zero_point, begin);
    fill(to + begin + n, zero_point, all - begin - n);
    to += begin;
    if (strided.stride > 1) {  // of as many channels as lanes
      for (int j = 0; j < middle(); ++j)
        for (int v = 0; v < block; ++v)
          *to++ = byte(x[at + std::ptrdiff_t{j} * strided.stride * block + v], to_bytes);
      return;
    }
    if constexpr (std::same_as<In, std::uint8_t>) {
      std::memcpy(to, x + at, static_cast<std::size_t>(n));
    } else {
      std::ptrdiff_t i = 0;
      for (; i + V <= n; i += V) to_bytes.quantize(x + at + i, to + i);
      for (; i < n; ++i) to[i] = to_bytes.byte_of(x[at + i]);
    }
  }
  template <class In, class ToBytes>
  static std::uint8_t byte(In x, const ToBytes& to_bytes) {
    if constexpr (std::same_as<In, std::uint8_t>)
      return x;
    else
      return to_bytes.byte_of(x);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
