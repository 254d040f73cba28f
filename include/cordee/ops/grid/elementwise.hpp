// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes that treat every number alone, y <- f(x), as grids (ops/elementwise.hpp). Each number is
// computed in wide and rounded once.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/grid/blocked.hpp>
#include <cordee/ops/grid/pack.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Pack i of y <- f(x), or of y <- f(x, y).
template <Number N, class F>
struct packwise {
  std::size_t n;
  int width;
  const N* x;
  N* y;
  F f;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * static_cast<std::size_t>(width);
    const int count = static_cast<int>(std::min(n - first, static_cast<std::size_t>(width)));
    pack<N> z(x + first, count);
    if constexpr (std::invocable<const F&, wide<N>, wide<N>>) {
      const pack<N> old(y + first, count);
      for (int k = 0; k < z.size; ++k) z.at[k] = f(z.at[k], old.at[k]);
    } else {
      for (int k = 0; k < z.size; ++k) z.at[k] = f(z.at[k]);
    }
    z.store(y + first, count);
  }
};
template <Number N, GridStream S, class F>
void for_each_pack(S s, std::size_t n, const N* x, N* y, const F& f) {
  const int width = pack_width<N>(pack<N>::size, x, y);
  for_each(s, blocks_for(n, static_cast<std::size_t>(width)), packwise<N, F>{n, width, x, y, f});
}

struct adds {
  template <class T>
  CORDEE_DEVICE T operator()(T x, T y) const {
    return y + x;
  }
};
struct rectifies {
  template <class T>
  CORDEE_DEVICE T operator()(T x) const {
    return x < 0 ? T{0} : x;
  }
};
struct opens {
  template <class T>
  CORDEE_DEVICE T operator()(T y, T g) const {
    return y > 0 ? g : T{0};
  }
};
template <class T>
struct scales {
  T factor;
  CORDEE_DEVICE T operator()(T x) const { return factor * x; }
};
template <class T>
struct scales_by {
  const T* factor;
  CORDEE_DEVICE T operator()(T x) const { return *factor * x; }
};

/// Pack i of the activations of bytes.
template <Number N>
struct normalises {
  blocked to;
  int width;
  const std::uint8_t* bytes;
  normalisation by;
  N* x;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    using real = wide<N>;
    const std::size_t first = i * static_cast<std::size_t>(width);
    const blocked::place at = to.at(first);
    pack<N> out;
    for (int k = 0; k < out.size; ++k) {
      const std::size_t c = at.channel + static_cast<std::size_t>(k);
      if (k >= width || c >= to.channels) continue;
      const std::uint8_t byte = bytes[(at.sample * to.channels + c) * to.pixels + at.pixel];
      out.at[k] = (static_cast<real>(byte) / 255 - static_cast<real>(by.mean[c])) *
                  static_cast<real>(by.scale[c]);
    }
    out.store(x + first, width);
  }
};

}  // namespace detail

/// y <- y + x
template <Number N, GridStream S>
void add(std::size_t n, const N* x, N* y, S s) {
  detail::for_each_pack(s, n, x, y, detail::adds{});
}

/// x <- factor x
template <Number N, GridStream S>
void scale(std::size_t n, wide<N> factor, N* x, S s) {
  detail::for_each_pack<N>(s, n, x, x, detail::scales<wide<N>>{factor});
}
/// x <- *factor x, which is in the device's memory
template <Number N, GridStream S>
void scale(std::size_t n, const wide<N>* factor, N* x, S s) {
  detail::for_each_pack<N>(s, n, x, x, detail::scales_by<wide<N>>{factor});
}

/// y <- max(x, 0), not a number stays so
template <Number N, GridStream S>
void relu_forward(std::size_t n, const N* x, N* y, S s) {
  detail::for_each_pack(s, n, x, y, detail::rectifies{});
}

/// g <- g where the output y of the ReLU is positive, 0 elsewhere
template <Number N, GridStream S>
void relu_backward(std::size_t n, const N* y, N* g, S s) {
  detail::for_each_pack(s, n, y, g, detail::opens{});
}

/// x <- (byte / 255 - mean) * scale: bytes in (samples, C, H, W) order to activations in blocks of
/// V channels. Channels that fill up the last block become zero.
template <Number N, int V, GridStream S>
void normalise_bytes(const extent& e, int samples, const std::uint8_t* bytes,
                     const normalisation& by, N* x, S s) {
  expects(static_cast<std::size_t>(e.channels) <= by.mean.size(),
          "normalise_bytes: an image of bytes has at most four channels");
  const detail::blocked to(e, V);
  const int width = detail::pack_width<N>(V, x);
  for_each(s, static_cast<std::size_t>(samples) * to.size() / static_cast<std::size_t>(width),
           detail::normalises<N>{to, width, bytes, by, x});
}

}  // namespace cordee::inline CORDEE_ABI
