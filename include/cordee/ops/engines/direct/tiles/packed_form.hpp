// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which engine `direct` reads weights, and conversions from and to the canonical
// (K, C, R, S):
//
//   (K/V, C/B, R, S, B, V)   with B = channel_block_size(C): V, or C where channels are few
//
// Packing transposes squares of V registers: V adjacent weights of each of V filters become V
// filters of each weight. The packed weights for dgrad are, tap by tap, the transposes of those for
// fprop.
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// f(0) .. f(n-1); unrolled where N is an integral_constant.
template <class N, class F>
[[gnu::always_inline]] inline void unrolled_for(N n, const F& f) {
  if constexpr (std::is_same_v<N, int>) {
    for (std::ptrdiff_t i = 0; i < n; ++i) f(i);
  } else {
#pragma GCC unroll 16
    for (std::ptrdiff_t i = 0; i < N::value; ++i) f(i);
  }
}

/// Sizes and offsets in a packed form, in numbers.
template <int V>
struct packed_form {
  int outputs = 0, inputs = 0, window = 0;  // K, C, R = S

  [[nodiscard]] constexpr std::ptrdiff_t block_size() const {
    const int block = channel_block_size<V>(inputs);
    return std::ptrdiff_t{V} * window * window * block * ((inputs + block - 1) / block);
  }
  [[nodiscard]] constexpr std::size_t size() const {
    return channel_blocks(outputs, V) * static_cast<std::size_t>(block_size());
  }
  /// From one tap of a window row to the next.
  [[nodiscard]] constexpr std::ptrdiff_t tap_size() const {
    return std::ptrdiff_t{V} * channel_block_size<V>(inputs);
  }
  /// Offset of the V weights of input channel c at tap (r, s), in filter block 0.
  [[nodiscard]] constexpr std::ptrdiff_t at(int c, int r, int s) const {
    const int block = channel_block_size<V>(inputs);
    return ((std::ptrdiff_t{c / block} * window + r) * window + s) * block * V + c % block * V;
  }
  /// Weights (channels, taps) of filter k from channel c on: the offset of the first in canonical
  /// order, and in the packed form, from filter block `first` on. The next channel is V further,
  /// the next tap tap_size().
  struct weight_run {
    int k, c;
    std::ptrdiff_t canonical, packed;
  };
  /// f(run, channels) for filter blocks first .. last-1: V filters of one block of inputs before
  /// the next block, which suits the cache in either order. The channels of a full block are an
  /// integral_constant, for unrolled_for.
  template <class F>
  void for_each_run(std::size_t first, std::size_t last, const F& f) const {
    const int block = channel_block_size<V>(inputs), taps = window * window;
    for (std::size_t b = first; b < last; ++b)
      for (int c = 0; c < inputs; c += block)
        for (int v = 0, k = static_cast<int>(b) * V; v < V && k < outputs; ++v, ++k) {
          const weight_run run{
              k, c, (std::ptrdiff_t{k} * inputs + c) * taps,
              static_cast<std::ptrdiff_t>(b - first) * block_size() + at(c, 0, 0) + v};
          const int channels = std::min(block, inputs - c);
          if (channels == V)
            f(run, std::integral_constant<int, V>{});
          else
            f(run, channels);
        }
  }
  /// Packs filter blocks first .. last-1 from canonical order; `packed` is the first block's.
  /// Effects: numbers that only fill a block are not written.
  template <class Real>
  void pack(std::size_t first, std::size_t last, const Real* from, Real* packed) const {
    for (std::size_t b = first; b < last; ++b, packed += block_size()) {
      if constexpr (fits_registers<Real>)
        if (is_full(b)) {
          for_each_square<Real>(from + canonical(b), packed,
                                [](const Real* filters, std::ptrdiff_t pitch, auto next_packed) {
                                  vec<Real, V> square[std::size_t{V}];
                                  for (int k = 0; k < V; ++k)
                                    square[k] = load<Real, V>(filters + k * pitch);
                                  transpose<Real, V>(square);
                                  for (int i = 0; i < V; ++i)
                                    store<Real, V>(next_packed(), square[i]);
                                });
          continue;
        }
      for_each_run(b, b + 1, [&](const weight_run& run, auto channels) {
        const Real* weight = from + run.canonical;
        Real* to = packed + run.packed;
        for (std::ptrdiff_t t = 0; t < taps(); ++t, ++weight, to += tap_size())
          unrolled_for(channels, [&](std::ptrdiff_t c) { to[c * V] = weight[c * taps()]; });
      });
    }
  }
  /// Unpacks filter blocks first .. last-1 to canonical order; `packed` is the first block's.
  template <class Real>
  void unpack(std::size_t first, std::size_t last, const Real* packed, Real* to,
              write_mode mode) const {
    for (std::size_t b = first; b < last; ++b, packed += block_size()) {
      if constexpr (fits_registers<Real>)
        if (is_full(b)) {
          for_each_square<Real>(to + canonical(b), packed,
                                [mode](Real* filters, std::ptrdiff_t pitch, auto next_packed) {
                                  vec<Real, V> square[std::size_t{V}];
                                  for (int i = 0; i < V; ++i)
                                    square[i] = load<Real, V>(next_packed());
                                  transpose<Real, V>(square);
                                  for (int k = 0; k < V; ++k) {
                                    Real* const weights = filters + k * pitch;
                                    if (mode == write_mode::add)
                                      square[k] += load<Real, V>(weights);
                                    store<Real, V>(weights, square[k]);
                                  }
                                });
          continue;
        }
      for_each_run(b, b + 1, [&](const weight_run& run, auto channels) {
        const Real* from = packed + run.packed;
        Real* weight = to + run.canonical;
        for (std::ptrdiff_t t = 0; t < taps(); ++t, ++weight, from += tap_size())
          unrolled_for(channels, [&](std::ptrdiff_t c) {
            weight[c * taps()] =
                (mode == write_mode::add ? weight[c * taps()] : Real{}) + from[c * V];
          });
      });
    }
  }
  /// Copies filter blocks first .. last-1, of which the first is `packed`, into the form with
  /// inputs and outputs exchanged, {inputs, outputs, window}, that begins at `swapped`.
  template <class Real>
  void swap_channels(std::size_t first, std::size_t last, const Real* packed, Real* swapped) const {
    const packed_form other{inputs, outputs, window};
    const int block = channel_block_size<V>(inputs);
    for (std::size_t b = first; b < last; ++b)
      for (int c = 0; c < inputs; c += block) {
        const int k = static_cast<int>(b) * V;
        const auto weights_of = [&](int channel) {
          return swapped + channel / V * other.block_size() + other.at(k, 0, 0) + channel % V;
        };
        for (std::ptrdiff_t t = 0; t < taps(); ++t, packed += tap_size()) {
          if constexpr (fits_registers<Real>)
            if (is_full(b) && other.tap_size() == V * V) {
              Real* const to = weights_of(c) + t * V * V;
              vec<Real, V> square[std::size_t{V}];
#pragma GCC unroll 16
              for (int i = 0; i < V; ++i) square[i] = load<Real, V>(packed + i * V);
              transpose<Real, V>(square);
#pragma GCC unroll 16
              for (int i = 0; i < V; ++i) store<Real, V>(to + i * V, square[i]);
              continue;
            }
          for (int i = 0; i < std::min(block, inputs - c); ++i)
            for (int v = 0; v < std::min(V, outputs - k); ++v)
              weights_of(c + i)[t * other.tap_size() + v * V] = packed[i * V + v];
        }
      }
  }

 private:
  [[nodiscard]] constexpr std::ptrdiff_t taps() const { return std::ptrdiff_t{window} * window; }
  /// Offset of the first weight of filter block b.
  [[nodiscard]] constexpr std::ptrdiff_t canonical(std::size_t b) const {
    return static_cast<std::ptrdiff_t>(b) * V * inputs * taps();
  }
  /// Whether V numbers fit a register of the ISA, so that V x V numbers are transposed in
  /// registers.
  template <class Real>
  static constexpr bool fits_registers = std::has_single_bit(unsigned{V}) && V <= lanes<Real>;
  /// Whether filter block b has V filters, and all its blocks V channels.
  [[nodiscard]] constexpr bool is_full(std::size_t b) const {
    return tap_size() == V * V && inputs % V == 0 &&
           (b + 1) * V <= static_cast<std::size_t>(outputs);
  }
  /// f(filters, pitch, next_packed) for each V adjacent weights of V filters, which are `pitch`
  /// apart in canonical order; V calls of next_packed() return the packed addresses of these
  /// weights, each for all V filters.
  template <class Real, class Canonical, class Packed, class F>
  void for_each_square(Canonical* filters, Packed* packed, const F& f) const {
    for (int block = 0; block < inputs; block += V, packed += taps() * tap_size()) {
      Packed* channel = packed;
      std::ptrdiff_t tap = 0;
      const auto next_packed = [&] {
        Packed* const address = channel + tap * tap_size();
        if (++tap == taps()) tap = 0, channel += V;
        return address;
      };
      for (std::ptrdiff_t done = 0; done < taps(); ++done, filters += V)
        f(filters, inputs * taps(), next_packed);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
