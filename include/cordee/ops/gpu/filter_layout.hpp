// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion of master weights to the layouts that GPU kernels read, and of weight gradients back.
//
//   packed[k, r, s, c] = master[k, c, r, s],  0 where k >= K or c >= C
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/filter_tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <Number From, Number To>
struct convert_op {
  const From* from;
  To* to;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    to[i] = precision::rounded<To>(static_cast<precision::wide<To>>(precision::widened(from[i])));
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
  const From* partial = nullptr;
  std::size_t splits = 0;
  Real* dw = nullptr;
  write_mode mode = write_mode::overwrite;

  unpack_filters_kernel() = default;
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
    sum_tile<threads>(b, b.index());
  }
  /// What block `block` of tile.blocks() does, by a block of `BlockThreads` threads.
  template <int BlockThreads, class Block>
  CORDEE_DEVICE void sum_tile(Block& b, std::size_t block) const {
    static_assert(threads % BlockThreads == 0);
    auto* const sums = b.template shared<precision::wide<From>>(tile.numbers());
    const std::size_t size = tile.layout.size();
    for (int i = 0; i < threads / BlockThreads; ++i)
      tile.for_each_krsc(block, b.thread() + i * BlockThreads,
                         [&](unsigned k, unsigned n, std::size_t index, bool is_weight) {
                           if (!is_weight) return;
                           precision::wide<From> sum = 0;
                           for (std::size_t s = 0; s < splits; ++s)
                             sum += precision::widened(partial[s * size + index]);
                           sums[k * tile.pitch + n] = sum;
                         });
    b.sync();
    for (int i = 0; i < threads / BlockThreads; ++i)
      tile.for_each_master(block, b.thread() + i * BlockThreads,
                           [&](unsigned k, unsigned n, std::size_t index) {
                             const auto sum = static_cast<Real>(sums[k * tile.pitch + n]);
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
