// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The sums of a weight gradient as tiles, (filter tiles, columns, 16 filters, 16 channels), and
// their way to canonical order, (K, C, R, S). The channels of a filter, which are 16 numbers of
// each tap, are transposed in squares of registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/weight_gradient_plan.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Some filter tiles and pairs of channel tiles of the sums.
class gradient_sums {
 public:
  static constexpr std::ptrdiff_t tile = std::ptrdiff_t{tile_rows} * tile_rows;

  /// `columns`: column tiles from one filter tile to the next.
  gradient_sums(const amx_gradient_plan& plan, float* sums, int filter_tile, int channel_pair,
                int columns)
      : plan_(plan),
        sums_(sums),
        filter_tile_(filter_tile),
        channel_pair_(channel_pair),
        columns_(columns) {}

  [[nodiscard]] std::ptrdiff_t filter_pitch() const { return columns_ * tile; }
  [[nodiscard]] float* at(int filter_tile, int column) const {
    return sums_ + (filter_tile - filter_tile_) * filter_pitch() +
           (column - plan_.first_column(channel_pair_)) * tile;
  }

  /// Writes filter tiles first .. last-1 and channel pairs begin .. end-1 to dw (K, C, R, S).
  void unpack(int first, int last, int begin, int end, float* dw, write_mode mode) const {
    const convolution_problem& p = plan_.layer;
    const std::ptrdiff_t filter_size = static_cast<std::ptrdiff_t>(p.weights()) / p.filters;
    const int taps = plan_.taps;
    // 32 channels of all taps, of two filters in turn: numbers that were just written in pieces are
    // slow to load as a register, so they are copied to dw behind those of the next filter.
    thread_local scratch<float> memory;
    float* const canonical = memory.reserve(static_cast<std::size_t>(4 * tile_rows * taps));
    written previous;
    for (int t = first; t < last; ++t)
      for (int c = begin; c < end; ++c)
        for (int m = 0; m < tile_rows; ++m) {
          const int k = channel_of(tile_block_size(p.filters), t, m);
          if (k >= p.filters) continue;
          float* const filter = dw + k * filter_size;
          if (plan_.image) {
            unpack_image(t, m, c, filter, mode);
            continue;
          }
          const written next = unpack_channels(
              t, m, c, canonical + std::ptrdiff_t{m % 2} * 2 * tile_rows * taps, filter, mode);
          copy(previous, mode);
          previous = next;
        }
    copy(previous, mode);
    stream_fence();
  }

 private:
  static constexpr std::size_t streamed_bytes = std::size_t{1} << 17;
  static constexpr int L = tile_rows < lanes<float> ? tile_rows : lanes<float>;

  /// Channel i of tile `at`.
  static constexpr int channel_of(int block, int at, int i) {
    return block == 32 ? at / 2 * 32 + 2 * i + at % 2 : at * tile_rows + i;
  }

  /// Numbers in canonical order, and where they belong.
  struct written {
    const float* from = nullptr;
    float* to = nullptr;
    std::ptrdiff_t n = 0;
  };
  /// The gradient of many weights is in no cache, and is read when the whole backward pass is done.
  [[nodiscard]] bool streamed(const float* to) const {
    return plan_.layer.weights() * sizeof(float) >= streamed_bytes &&
           reinterpret_cast<std::uintptr_t>(to) % register_bytes == 0;
  }
  void copy(const written& w, write_mode mode) const {
    std::ptrdiff_t i = 0;
    if (mode == write_mode::add) {
      for (; i < w.n; ++i) w.to[i] += w.from[i];
      return;
    }
    if (streamed(w.to))
      for (; i + lanes<float> <= w.n; i += lanes<float>)
        stream<float, lanes<float>>(w.to + i, load<float, lanes<float>>(w.from + i));
    std::copy_n(w.from + i, w.n - i, w.to + i);
  }

  /// Row m of a filter tile, over one pair of channel tiles; filter (C, R, S).
  written unpack_channels(int t, int m, int pair, float* canonical, float* filter,
                          write_mode mode) const {
    const convolution_problem& p = plan_.layer;
    const int width = std::min(2, plan_.channel_tiles - 2 * pair), taps = p.window * p.window,
              first = 2 * pair * tile_rows,
              channels = std::min(width * tile_rows, p.in.channels - first);
    if (channels <= 0) return {};
    const bool alternate = tile_block_size(p.in.channels) == 32;
    const float* const from = at(t, plan_.first_column(pair)) + m * tile_rows;
    float* const to = filter + std::ptrdiff_t{first} * taps;
    if (taps == 1 && channels == width * tile_rows) {
      copy_single_tap(from, width, alternate, to, mode,
                      mode == write_mode::overwrite && streamed(to));
      return {};
    }
    if (taps == 1)
      copy_single_tap(from, width, alternate, canonical, write_mode::overwrite);
    else
      for (int h = 0; h < width; ++h)
        transpose_taps(from + h * tile, width, alternate ? 2 : 1,
                       canonical + (alternate ? h : h * tile_rows) * taps);
    return {canonical, to, std::ptrdiff_t{channels} * taps};
  }

  /// canonical[step c][tap] = the numbers c of the tiles of all taps, which are `width` apart.
  void transpose_taps(const float* from, int width, int step, float* canonical) const {
    constexpr int E = L < 8 ? L : 8, parts = L / E;
    const int taps = plan_.taps;
    const auto row_of = [&](int tap) { return from + std::ptrdiff_t{tap} * width * tile; };
    int tap = 0;
    for (; tap + E <= taps; tap += E)
      for (int c = 0; c < tile_rows; c += L) {
        vec<float, L> square[std::size_t{E}];
#pragma GCC unroll 8
        for (int i = 0; i < E; ++i) square[i] = load<float, L>(row_of(tap + i) + c);
        transpose_parts<1, E>(square);
#pragma GCC unroll 8
        for (int i = 0; i < E; ++i) {
          struct {
            vec<float, E> part[std::size_t{parts}];
          } channels;
          std::memcpy(&channels, &square[i], sizeof channels);
#pragma GCC unroll 2
          for (int part = 0; part < parts; ++part)
            store<float, E>(canonical + std::ptrdiff_t{step} * (c + part * E + i) * taps + tap,
                            channels.part[part]);
        }
      }
    for (; tap < taps; ++tap)
      for (int c = 0; c < tile_rows; ++c)
        canonical[std::ptrdiff_t{step} * c * taps + tap] = row_of(tap)[c];
  }
  /// E registers of squares of E lanes, side by side: each square is transposed.
  template <int H, int E>
  [[gnu::always_inline]] static void transpose_parts(vec<float, L>* r) {
    if constexpr (H < E) {
#pragma GCC unroll 8
      for (int i = 0; i < E; ++i)
        if ((i & H) == 0)
          swap_lanes<H, float, L>(r[i], r[i + H], std::make_integer_sequence<int, L>{});
      transpose_parts<2 * H, E>(r);
    }
  }
  static void copy_single_tap(const float* from, int width, bool alternate, float* canonical,
                              write_mode mode, bool streams = false) {
    const auto put = [&](float* to, vec<float, L> x) __attribute__((always_inline)) {
      if (streams)
        stream<float, L>(to, x);
      else
        store<float, L>(to, mode == write_mode::add ? load<float, L>(to) + x : x);
    };
    for (int c = 0; c < tile_rows; c += L)
      if (alternate) {
        vec<float, L> a = load<float, L>(from + c), b = load<float, L>(from + tile + c);
        interleave(a, b, std::make_integer_sequence<int, L>{});
        put(canonical + 2 * c, a);
        put(canonical + 2 * c + L, b);
      } else {
        for (int h = 0; h < width; ++h)
          put(canonical + h * tile_rows + c, load<float, L>(from + h * tile + c));
      }
  }
  /// (a, b) = a[0], b[0], a[1], b[1] ...
  template <int... I>
  [[gnu::always_inline]] static void interleave(vec<float, L>& a, vec<float, L>& b,
                                                std::integer_sequence<int, I...>) {
    const vec<float, L> even = a, odd = b;
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)
    a = __builtin_shufflevector(even, odd, (I / 2 + I % 2 * L)...);
    b = __builtin_shufflevector(even, odd, (I / 2 + L / 2 + I % 2 * L)...);
#else
    for (const int i : {I...}) {
      a[i] = i % 2 == 0 ? even[i / 2] : odd[i / 2];
      b[i] = i % 2 == 0 ? even[(i + L) / 2] : odd[(i + L) / 2];
    }
#endif
  }
  /// The words of a window row are (S, C).
  void unpack_image(int t, int m, int pair, float* filter, write_mode mode) const {
    const convolution_problem& p = plan_.layer;
    const int C = p.in.channels, words = p.window * C;
    for (int column = plan_.first_column(pair); column < plan_.first_column(pair + 1); ++column) {
      const auto [channel_tile, r, s] = plan_.column_at(column);
      const float* const from = at(t, column) + m * tile_rows;
      const int first = channel_tile * tile_rows, n = std::min(tile_rows, words - first);
      for (int i = 0; i < n; ++i) {
        float& to = filter[((first + i) % C * p.window + r) * p.window + (first + i) / C];
        to = (mode == write_mode::add ? to : 0.0f) + from[i];
      }
    }
  }

  const amx_gradient_plan& plan_;
  float* sums_;
  int filter_tile_, channel_pair_, columns_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
