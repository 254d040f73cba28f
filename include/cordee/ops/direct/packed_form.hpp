// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which engine `direct` reads weights, to and from the canonical (K, C, R, S).
//
//   (K / V, C / B, R, S, B, V), B = V, or C where channels are few
//
// V weights that follow one another in each of V filters are a square of registers: transposed it
// goes from one order to the other, and so does a tap's square from one direction to the other.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <type_traits>

#include <cordee/core/protocol.hpp>
#include <cordee/ops/direct/storage.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// f(0) .. f(n-1), without a loop where n is a type's.
template <class N, class F>
[[gnu::always_inline]] inline void each_of(N n, const F& f) {
  if constexpr (std::is_same_v<N, int>) {
    for (std::ptrdiff_t i = 0; i < n; ++i) f(i);
  } else {
#pragma GCC unroll 16
    for (std::ptrdiff_t i = 0; i < N::value; ++i) f(i);
  }
}

/// Where the weights of filter block 0 stand in a packed form, (K / V, C / B, R, S, B, V) with
/// B = direct_block(C).
template <int V>
struct packed_form {
  int outputs = 0, inputs = 0, window = 0;

  [[nodiscard]] constexpr std::ptrdiff_t block_size() const {
    const int block = direct_block<V>(inputs);
    return std::ptrdiff_t{V} * window * window * block * ((inputs + block - 1) / block);
  }
  [[nodiscard]] constexpr std::size_t size() const {
    return blocks_of(outputs, V) * static_cast<std::size_t>(block_size());
  }
  /// From tap to tap of a window row.
  [[nodiscard]] constexpr std::ptrdiff_t tap_size() const {
    return std::ptrdiff_t{V} * direct_block<V>(inputs);
  }
  /// The V weights of input channel c at tap (r, s).
  [[nodiscard]] constexpr std::ptrdiff_t at(int c, int r, int s) const {
    const int block = direct_block<V>(inputs);
    return ((std::ptrdiff_t{c / block} * window + r) * window + s) * block * V + c % block * V;
  }
  /// Weights of filter k, (channels, taps) from channel c on: where the first of them stands in
  /// canonical order, and here, counted from the first block that was asked for. The next channel
  /// stands V further on, the next tap tap_size().
  struct run {
    int k, c;
    std::ptrdiff_t canonical, at;
  };
  /// f(run, channels) for filter blocks first .. last-1, V filters at a block of inputs before the
  /// next: in either order what is near is used up before it is gone. A full block's channels are
  /// a constant, for each_of.
  template <class F>
  void each_run(std::size_t first, std::size_t last, const F& f) const {
    const int block = direct_block<V>(inputs), taps = window * window;
    for (std::size_t b = first; b < last; ++b)
      for (int c = 0; c < inputs; c += block)
        for (int v = 0, k = static_cast<int>(b) * V; v < V && k < outputs; ++v, ++k) {
          const run here{k, c, (std::ptrdiff_t{k} * inputs + c) * taps,
                         static_cast<std::ptrdiff_t>(b - first) * block_size() + at(c, 0, 0) + v};
          const int channels = std::min(block, inputs - c);
          if (channels == V)
            f(here, std::integral_constant<int, V>{});
          else
            f(here, channels);
        }
  }
  /// Filter blocks first .. last-1, the first of them at `packed`, from canonical order. What only
  /// fills a block stays as it was.
  template <class Real>
  void pack(std::size_t first, std::size_t last, const Real* from, Real* packed) const {
    for (std::size_t b = first; b < last; ++b, packed += block_size()) {
      if constexpr (in_squares<Real>)
        if (is_whole(b)) {
          each_square<Real>(from + canonical(b), packed,
                            [](const Real* filters, std::ptrdiff_t pitch, auto place) {
                              vec<Real, V> square[V];
                              for (int k = 0; k < V; ++k)
                                square[k] = load<Real, V>(filters + k * pitch);
                              transpose<Real, V>(square);
                              for (int i = 0; i < V; ++i) store<Real, V>(place(), square[i]);
                            });
          continue;
        }
      each_run(b, b + 1, [&](const run& here, auto channels) {
        const Real* weight = from + here.canonical;
        Real* to = packed + here.at;
        for (std::ptrdiff_t t = 0; t < taps(); ++t, ++weight, to += tap_size())
          each_of(channels, [&](std::ptrdiff_t c) { to[c * V] = weight[c * taps()]; });
      });
    }
  }
  /// Filter blocks first .. last-1, the first of them at `packed`, to canonical order.
  template <class Real>
  void unpack(std::size_t first, std::size_t last, const Real* packed, Real* to, into how) const {
    for (std::size_t b = first; b < last; ++b, packed += block_size()) {
      if constexpr (in_squares<Real>)
        if (is_whole(b)) {
          each_square<Real>(to + canonical(b), packed,
                            [how](Real* filters, std::ptrdiff_t pitch, auto place) {
                              vec<Real, V> square[V];
                              for (int i = 0; i < V; ++i) square[i] = load<Real, V>(place());
                              transpose<Real, V>(square);
                              for (int k = 0; k < V; ++k) {
                                Real* const weights = filters + k * pitch;
                                if (how == into::add) square[k] += load<Real, V>(weights);
                                store<Real, V>(weights, square[k]);
                              }
                            });
          continue;
        }
      each_run(b, b + 1, [&](const run& here, auto channels) {
        const Real* from = packed + here.at;
        Real* weight = to + here.canonical;
        for (std::ptrdiff_t t = 0; t < taps(); ++t, ++weight, from += tap_size())
          each_of(channels, [&](std::ptrdiff_t c) {
            weight[c * taps()] = (how == into::add ? weight[c * taps()] : Real{}) + from[c * V];
          });
      });
    }
  }
  /// The same weights with inputs and outputs exchanged: filter blocks first .. last-1, the first
  /// of them at `packed`, to where they stand in the form {inputs, outputs, window} at `turned`.
  template <class Real>
  void turn(std::size_t first, std::size_t last, const Real* packed, Real* turned) const {
    const packed_form other{inputs, outputs, window};
    const int block = direct_block<V>(inputs);
    for (std::size_t b = first; b < last; ++b)
      for (int c = 0; c < inputs; c += block) {
        const int k = static_cast<int>(b) * V;
        const auto place = [&](int channel) {
          return turned + channel / V * other.block_size() + other.at(k, 0, 0) + channel % V;
        };
        for (std::ptrdiff_t t = 0; t < taps(); ++t, packed += tap_size()) {
          if constexpr (in_squares<Real>)
            if (is_whole(b) && other.tap_size() == V * V) {
              Real* const to = place(c) + t * V * V;
              vec<Real, V> square[V];
              for (int i = 0; i < V; ++i) square[i] = load<Real, V>(packed + i * V);
              transpose<Real, V>(square);
              for (int i = 0; i < V; ++i) store<Real, V>(to + i * V, square[i]);
              continue;
            }
          for (int i = 0; i < std::min(block, inputs - c); ++i)
            for (int v = 0; v < std::min(V, outputs - k); ++v)
              place(c + i)[t * other.tap_size() + v * V] = packed[i * V + v];
        }
      }
  }

 private:
  [[nodiscard]] constexpr std::ptrdiff_t taps() const { return std::ptrdiff_t{window} * window; }
  /// Of the first weight of filter block b.
  [[nodiscard]] constexpr std::ptrdiff_t canonical(std::size_t b) const {
    return static_cast<std::ptrdiff_t>(b) * V * inputs * taps();
  }
  /// Whether squares of V registers fit into the ISA's, and whether a block of filters and all its
  /// blocks of channels are whole.
  template <class Real>
  static constexpr bool in_squares = std::has_single_bit(unsigned{V}) && V <= lanes<Real>;
  [[nodiscard]] constexpr bool is_whole(std::size_t b) const {
    return tap_size() == V * V && inputs % V == 0 &&
           (b + 1) * V <= static_cast<std::size_t>(outputs);
  }
  /// f(filters, pitch, place) for each V weights that follow one another in V filters, `pitch`
  /// apart in canonical order; place() is where the V filters' next weight stands, V times.
  template <class Real, class Canonical, class Packed, class F>
  void each_square(Canonical* filters, Packed* packed, const F& f) const {
    for (int block = 0; block < inputs; block += V, packed += taps() * tap_size()) {
      Packed* channel = packed;
      std::ptrdiff_t tap = 0;
      const auto place = [&] {
        Packed* const here = channel + tap * tap_size();
        if (++tap == taps()) tap = 0, channel += V;
        return here;
      };
      for (std::ptrdiff_t done = 0; done < taps(); ++done, filters += V)
        f(filters, inputs * taps(), place);
    }
  }
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
