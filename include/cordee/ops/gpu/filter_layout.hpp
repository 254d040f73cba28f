// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion of master weights to the layouts that GPU kernels read, and of weight gradients back.
//
//   packed[k, r, s, c] = master[k, c, r, s],  0 where k >= K or c >= C
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <Number From, Number To>
struct convert_op {
  const From* from;
  To* to;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    to[i] = precision::rounded<To>(static_cast<precision::wide<To>>(precision::widened(from[i])));
  }
};

/// The layout (K', R, S, C') of padded weights.
struct krsc_layout {
  unsigned channels, filters, taps, padded_channels, padded_filters;

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
  krsc_layout layout;
  unsigned filters, channels, filters_log2, channels_log2;
  unsigned pitch;   // numbers of shared memory per filter
  unsigned across;  // tiles of a row of filters

  filter_tile(const krsc_layout& of, unsigned wanted_filters, unsigned wanted_channels)
      : layout(of),
        filters(std::min(wanted_filters, std::bit_ceil(of.padded_filters))),
        channels(std::min(wanted_channels, std::bit_ceil(of.padded_channels))) {
    constexpr unsigned enough = 8192;  // numbers
    while (filters * channels * layout.taps > enough && channels > 1) channels /= 2;
    while (filters * channels * layout.taps > enough && filters > 1) filters /= 2;
    filters_log2 = static_cast<unsigned>(std::countr_zero(filters));
    channels_log2 = static_cast<unsigned>(std::countr_zero(channels));
    // Numbers lie in words of shared memory. 32 threads that go down a column, or 32 / filters
    // adjacent columns, access all 32 banks.
    const unsigned columns = filters < 32 ? 32 / filters : 1;
    pitch = (channels * layout.taps + 31 - columns) / 32 * 32 + columns;
    across = static_cast<unsigned>(device::blocks_for(layout.padded_channels, channels));
  }
  [[nodiscard]] std::size_t blocks() const {
    return across * device::blocks_for(layout.padded_filters, filters);
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
};

/// Packs weights in either order, or in both by one reading of them; a null order is omitted.
template <class From, class To>
struct pack_filters_kernel {
  static constexpr int threads = filter_tile::threads;
  static constexpr unsigned sector = 32 / sizeof(To);  // numbers of 32 bytes
  struct alignas(std::max<std::size_t>(4, alignof(To))) word {
    To number;
  };
  filter_tile tile;
  const From* master;  // (K, C, R, S)
  To *krsc, *crsk;     // (K', R, S, C'), (C', R, S, K')

  pack_filters_kernel(const krsc_layout& layout, const From* from, To* to_krsc, To* to_crsk)
      : tile(layout, to_crsk == nullptr ? 8 : sector, 32),
        master(from),
        krsc(to_krsc),
        crsk(to_crsk) {}

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return tile.numbers() * sizeof(word); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    word* const weights = b.template shared<word>(tile.numbers());
    tile.for_each_master(b.index(), b.thread(), [&](unsigned k, unsigned i, std::size_t index) {
      weights[k * tile.pitch + i].number = convert(master[index]);
    });
    b.sync();
    const auto store = [&](To* to) {
      return [&, to](unsigned k, unsigned i, std::size_t index, bool is_weight) {
        to[index] = is_weight ? weights[k * tile.pitch + i].number : To{};
      };
    };
    if (krsc != nullptr) tile.for_each_krsc(b.index(), b.thread(), store(krsc));
    if (crsk != nullptr) tile.for_each_crsk(b.index(), b.thread(), store(crsk));
  }

 private:
  CORDEE_DEVICE static To convert(From x) {
    if constexpr (std::same_as<From, To>)
      return x;
    else
      return precision::rounded<To>(static_cast<precision::wide<To>>(precision::widened(x)));
  }
};

/// A block adds the weights of one filter; 0 where it is padding.
struct filter_sum_kernel {
  static constexpr int threads = 128;
  krsc_layout layout;
  const std::int8_t* w;  // (K, C, R, S)
  std::int32_t* sums;    // (K')

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t filter_size = std::size_t{layout.channels} * layout.taps;
    const std::int8_t* const filter = w + b.index() * filter_size;
    double sum = 0;  // exact
    if (b.index() < layout.filters)
      for (auto i = static_cast<std::size_t>(b.thread()); i < filter_size; i += threads)
        sum += filter[i];
    sum = b.sum(sum);
    if (b.thread() == 0) sums[b.index()] = static_cast<std::int32_t>(sum);
  }
};

/// dw (K, C, R, S) <- or += the sum of the splits of partial gradients (splits, K', R, S, C').
template <Number From, std::floating_point Real>
struct unpack_filters_kernel {
  static constexpr int threads = filter_tile::threads;
  filter_tile tile;
  const From* partial;
  std::size_t splits;
  Real* dw;
  write_mode mode;

  unpack_filters_kernel(const krsc_layout& layout, const From* from, std::size_t count, Real* to,
                        write_mode write)
      : tile(layout, layout.taps == 1 ? 8 : 1, 32),
        partial(from),
        splits(count),
        dw(to),
        mode(write) {}

  [[nodiscard]] constexpr std::size_t shared_bytes() const {
    return tile.numbers() * sizeof(precision::wide<From>);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    auto* const sums = b.template shared<precision::wide<From>>(tile.numbers());
    const std::size_t size = tile.layout.size();
    tile.for_each_krsc(b.index(), b.thread(),
                       [&](unsigned k, unsigned i, std::size_t index, bool is_weight) {
                         if (!is_weight) return;
                         precision::wide<From> sum = 0;
                         for (std::size_t s = 0; s < splits; ++s)
                           sum += precision::widened(partial[s * size + index]);
                         sums[k * tile.pitch + i] = sum;
                       });
    b.sync();
    tile.for_each_master(b.index(), b.thread(), [&](unsigned k, unsigned i, std::size_t index) {
      const auto sum = static_cast<Real>(sums[k * tile.pitch + i]);
      dw[index] = mode == write_mode::add ? dw[index] + sum : sum;
    });
  }
};

/// Packs weights (K, C, R, S) as (K', R, S, C') and as (C', R, S, K'), or as one of them.
template <class From, class To, GpuStream S>
void pack_filters(const krsc_layout& layout, const From* master, To* krsc, To* crsk, S s) {
  const pack_filters_kernel<From, To> kernel(layout, master, krsc, crsk);
  s.launch_kernel(kernel.tile.blocks(), kernel);
}
/// dw (K, C, R, S) <- or += the sum of the partial gradients (splits, K', R, S, C').
template <Number From, std::floating_point Real, GpuStream S>
void unpack_filters(const krsc_layout& layout, const From* partial, std::size_t splits, Real* dw,
                    write_mode mode, S s) {
  const unpack_filters_kernel<From, Real> kernel(layout, partial, splits, dw, mode);
  s.launch_kernel(kernel.tile.blocks(), kernel);
}

/// to[i] <- from[i], rounded to To.
template <Number From, Number To, GpuStream S>
void convert(std::size_t n, const From* from, To* to, S s) {
  for_each(s, n, convert_op<From, To>{from, to});
}

/// Packs weights (K, C, R, S) as (K', R, S, C').
template <Number From, Number To, GpuStream S>
void pack_krsc(const convolution_problem& p, int padded_channels, int padded_filters,
               const From* master, To* packed, S s) {
  To* const no_crsk = nullptr;
  pack_filters({p, padded_channels, padded_filters}, master, packed, no_crsk, s);
}

/// Unpacks weight gradients (K', R, S, C') to (K, C, R, S): overwrites dw or adds to it.
template <Number From, std::floating_point Real, GpuStream S>
void unpack_krsc(const convolution_problem& p, int padded_channels, int padded_filters,
                 const From* dw_krsc, Real* dw, write_mode mode, S s) {
  unpack_filters({p, padded_channels, padded_filters}, dw_krsc, 1, dw, mode, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
