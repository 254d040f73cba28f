// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of the elementwise operations y <- f(x) (ops/cpu/elementwise.hpp). Each number is
// computed in wide and rounded once.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Vector i of y <- f(x), or of y <- f(x, y).
template <Number N, class F>
struct vectorized_op {
  std::size_t n;
  int width;
  const N* x;
  N* y;
  F f;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * static_cast<std::size_t>(width);
    const int count = static_cast<int>(std::min(n - first, static_cast<std::size_t>(width)));
    vec_16b<N> z(x + first, count);
    if constexpr (std::invocable<const F&, precision::wide<N>, precision::wide<N>>) {
      const vec_16b<N> old(y + first, count);
      for (int k = 0; k < z.size; ++k) z.value[k] = f(z.value[k], old.value[k]);
    } else {
      for (int k = 0; k < z.size; ++k) z.value[k] = f(z.value[k]);
    }
    z.store(y + first, count);
  }
};
template <Number N, GpuStream S, class F>
void for_each_vec(S s, std::size_t n, const N* x, N* y, const F& f) {
  const int width = vec_16b_width<N>(vec_16b<N>::size, x, y);
  for_each(s, device::blocks_for(n, static_cast<std::size_t>(width)),
           vectorized_op<N, F>{n, width, x, y, f});
}

struct add_op {
  template <class T>
  CORDEE_DEVICE T operator()(T x, T y) const {
    return y + x;
  }
};
struct relu_op {
  template <class T>
  CORDEE_DEVICE T operator()(T x) const {
    return x < 0 ? T{0} : x;
  }
};
struct relu_mask_op {
  template <class T>
  CORDEE_DEVICE T operator()(T y, T g) const {
    return y > 0 ? g : T{0};
  }
};
template <class T>
struct scale_op {
  T factor;
  CORDEE_DEVICE T operator()(T x) const { return factor * x; }
};
template <class T>
struct scale_from_memory_op {
  const T* factor;
  CORDEE_DEVICE T operator()(T x) const { return *factor * x; }
};

template <class T>
struct set_zero_op {
  T* to;
  CORDEE_DEVICE void operator()(std::size_t i) const { to[i] = T{}; }
};

/// Vector i of the activations, of which `width` numbers are stored.
template <Number N, int Size = vec_16b<N>::size>
struct normalize_bytes_op {
  divided_layout layout;
  std::size_t channels, pixels;
  int width;
  const std::uint8_t* bytes;
  normalization statistics;
  N* x;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    using real = precision::wide<N>;
    const int first = static_cast<int>(i) * width;
    const auto at = layout.position_of(first);
    const std::uint8_t* const sample =
        bytes + static_cast<std::size_t>(at.sample) * channels * pixels;
    vec_16b<N, Size> out;
    for (int k = 0; k < out.size; ++k) {
      const auto c = static_cast<std::size_t>(at.channel + k);
      if (k >= width || c >= channels) continue;
      const std::uint8_t byte = sample[c * pixels + static_cast<std::size_t>(at.pixel)];
      out.value[k] = (static_cast<real>(byte) / 255 - static_cast<real>(statistics.mean[c])) *
                     static_cast<real>(statistics.scale[c]);
    }
    out.store(x + first, width);
  }
};

/// y <- y + x
template <Number N, GpuStream S>
void add(std::size_t n, const N* x, N* y, S s) {
  for_each_vec(s, n, x, y, add_op{});
}

/// x <- factor x
template <Number N, GpuStream S>
void scale(std::size_t n, precision::wide<N> factor, N* x, S s) {
  for_each_vec<N>(s, n, x, x, scale_op<precision::wide<N>>{factor});
}
/// x <- *factor x, with the factor in device memory
template <Number N, GpuStream S>
void scale(std::size_t n, const precision::wide<N>* factor, N* x, S s) {
  for_each_vec<N>(s, n, x, x, scale_from_memory_op<precision::wide<N>>{factor});
}

/// y <- max(x, 0); NaN stays NaN
template <Number N, GpuStream S>
void relu_forward(std::size_t n, const N* x, N* y, S s) {
  for_each_vec(s, n, x, y, relu_op{});
}

/// g <- g where the output y of the ReLU is positive, 0 elsewhere
template <Number N, GpuStream S>
void relu_backward(std::size_t n, const N* y, N* g, S s) {
  for_each_vec(s, n, y, g, relu_mask_op{});
}

/// x <- (byte / 255 - mean) * scale, from bytes (samples, C, H, W) to activations in blocks of V
/// channels, fewer than 2^31 in all; padded channels become zero.
template <Number N, int V, GpuStream S>
void normalize_bytes(const extent& e, int samples, const std::uint8_t* bytes,
                     const normalization& statistics, N* x, S s) {
  expects(static_cast<std::size_t>(e.channels) <= statistics.mean.size(),
          "normalize_bytes: an image of bytes has at most four channels");
  const blocked_layout layout(e, V);
  const std::size_t n = static_cast<std::size_t>(samples) * layout.size();
  expects(n <= INT32_MAX, "normalize_bytes: a batch has fewer than 2^31 numbers");
  constexpr int part = V == vec_16b<N>::size / 2 ? V : vec_16b<N>::size;  // of a pixel
  const bool is_part = part == V && part < vec_16b<N>::size;
  const int width = is_part ? part : vec_16b_width<N>(V, x);
  for_each(s, n / static_cast<std::size_t>(width),
           normalize_bytes_op<N, part>{divided_layout(layout), layout.channels, layout.pixels,
                                       width, bytes, statistics, x});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
