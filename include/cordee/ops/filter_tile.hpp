// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layout of packed weights, and its division into tiles by which GPU kernels pack them.
//
//   packed[k, r, s, c] = master[k, c, r, s],  0 where k >= K or c >= C
#pragma once

#include <bit>
#include <cstddef>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The layout (K', R, S, C') of padded weights.
struct krsc_layout {
  unsigned channels = 1, filters = 1, taps = 1, padded_channels = 1, padded_filters = 1;

  krsc_layout() = default;
  krsc_layout(const convolution_problem& p, int row_channels, int rows)
      : channels(static_cast<unsigned>(p.in.channels)),
        filters(static_cast<unsigned>(p.filters)),
        taps(static_cast<unsigned>(p.window * p.window)),
        padded_channels(static_cast<unsigned>(row_channels)),
        padded_filters(static_cast<unsigned>(rows)) {
    expects(row_channels >= p.in.channels && rows >= p.filters,
            "pack_krsc: fewer padded channels or filters than the layer has");
  }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t size() const {
    return std::size_t{padded_filters} * taps * padded_channels;
  }
};

/// The division of a layer's weights into tiles of filters x channels, each of all taps, which pass
/// through shared memory: rows are read and written along the memory of either side, by whole
/// sectors of 32 bytes. Sides are powers of two.
struct filter_tile {
  static constexpr int threads = 256;
  static constexpr unsigned most_numbers =
      8192;  // of shared memory, but for windows beyond 90 x 90
  krsc_layout layout;
  unsigned filters = 1, channels = 1, filters_log2 = 0, channels_log2 = 0;
  unsigned pitch = 32;  // numbers of shared memory per filter
  unsigned across = 1;  // tiles of a row of filters

  filter_tile() = default;
  filter_tile(const krsc_layout& of, unsigned wanted_filters, unsigned wanted_channels)
      : layout(of),
        filters(std::min(wanted_filters, std::bit_ceil(of.padded_filters))),
        channels(std::min(wanted_channels, std::bit_ceil(of.padded_channels))) {
    while (set_pitch() > most_numbers && channels > 1) channels /= 2;
    while (set_pitch() > most_numbers && filters > 1) filters /= 2;
    filters_log2 = static_cast<unsigned>(std::countr_zero(filters));
    channels_log2 = static_cast<unsigned>(std::countr_zero(channels));
    across = (layout.padded_channels + channels - 1) / channels;
  }
  [[nodiscard]] std::size_t blocks() const {
    return std::size_t{across} * ((layout.padded_filters + filters - 1) / filters);
  }
  [[nodiscard]] constexpr std::size_t numbers() const { return std::size_t{filters} * pitch; }
  [[nodiscard]] CORDEE_DEVICE unsigned first_filter(std::size_t block) const {
    return static_cast<unsigned>(block) / across * filters;
  }
  [[nodiscard]] CORDEE_DEVICE unsigned first_channel(std::size_t block) const {
    return static_cast<unsigned>(block) % across * channels;
  }

  /// f(row, i) for every row < `rows`, a power of two, and i < `length`; adjacent threads take
  /// adjacent i, a warp one row.
  template <class F>
  CORDEE_DEVICE static void for_each_row(int thread, unsigned rows, unsigned length, const F& f) {
    const unsigned at_once = rows < 8 ? rows : 8, each = threads / at_once;
    const auto t = static_cast<unsigned>(thread);
    for (unsigned row = t / each; row < rows; row += at_once)
      for (unsigned i = t % each; i < length; i += each) f(row, i);
  }
  /// f(k, i, index) for the tile's weights in the order of (K, C, R, S): number i of filter k's row
  /// of the tile, and its index there.
  template <class F>
  CORDEE_DEVICE void for_each_master(std::size_t block, int thread, const F& f) const {
    const unsigned k0 = first_filter(block), c0 = first_channel(block);
    if (c0 >= layout.channels) return;
    const unsigned run = std::min(channels, layout.channels - c0) * layout.taps;
    for_each_row(thread, filters, run, [&](unsigned k, unsigned i) {
      if (k0 + k < layout.filters)
        f(k, i, std::size_t{(k0 + k) * layout.channels + c0} * layout.taps + i);
    });
  }
  /// f(k, i, index) in the order of (K', R, S, C'), and whether it is a weight or padding.
  template <class F>
  CORDEE_DEVICE void for_each_krsc(std::size_t block, int thread, const F& f) const {
    const unsigned k0 = first_filter(block), c0 = first_channel(block);
    for_each_row(thread, filters, layout.taps * channels, [&](unsigned k, unsigned at) {
      const unsigned tap = at >> channels_log2, c = at & (channels - 1);
      if (k0 + k >= layout.padded_filters || c0 + c >= layout.padded_channels) return;
      f(k, c * layout.taps + tap,
        (std::size_t{k0 + k} * layout.taps + tap) * layout.padded_channels + c0 + c,
        k0 + k < layout.filters && c0 + c < layout.channels);
    });
  }
  /// The same in the order of (C', R, S, K').
  template <class F>
  CORDEE_DEVICE void for_each_crsk(std::size_t block, int thread, const F& f) const {
    const unsigned k0 = first_filter(block), c0 = first_channel(block);
    for_each_row(thread, channels, layout.taps * filters, [&](unsigned c, unsigned at) {
      const unsigned tap = at >> filters_log2, k = at & (filters - 1);
      if (k0 + k >= layout.padded_filters || c0 + c >= layout.padded_channels) return;
      f(k, c * layout.taps + tap,
        (std::size_t{c0 + c} * layout.taps + tap) * layout.padded_filters + k0 + k,
        k0 + k < layout.filters && c0 + c < layout.channels);
    });
  }

 private:
  /// Numbers lie in words of shared memory: 32 threads that go down a column, or 32 / filters
  /// adjacent columns, access all 32 banks. Returns numbers().
  std::size_t set_pitch() {
    const unsigned columns = filters < 32 ? 32 / filters : 1;
    pitch = (channels * layout.taps + 31 - columns) / 32 * 32 + columns;
    return numbers();
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
