// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of batch normalisation: one block of channels of one sample, (pixels, V), at a
// time. batch_norm.hpp calls them and merges their sums.
//
// They are never inlined: a call costs little beside a block, and each is compiled once.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// memory + offset; null where the memory is absent.
template <class N>
const N* offset_or_null(const N* memory, std::size_t offset) {
  return memory == nullptr ? nullptr : memory + offset;
}

/// Lanes of a block of V processed together: all, or one where V is not a power of two.
template <int V>
inline constexpr int register_lanes = (V & (V - 1)) == 0 ? V : 1;

/// One sum for each of W lanes, in double.
template <int W>
struct double_sums {
  static constexpr int D = std::min(W, lanes<double>);
  vec<double, D> part[std::size_t{W / D}] = {};

  template <class Real>
  [[gnu::always_inline]] void add(vec<Real, W> value) {
    Real each[std::size_t{W}];
    store<Real, W>(each, value);
    for (int k = 0; k < W / D; ++k)
      part[k] += __builtin_convertvector((load<Real, D>(each + k * D)), vec<double, D>);
  }
};

/// Pixels summed in Real before the partial sum is added in double.
inline constexpr std::size_t pixels_per_partial_sum = 512;

template <class Real, int W>
struct term_pair {
  vec<Real, W> first, second;
};

/// Adds the sums over all pixels of two terms, {a, b} = terms(pixel). Four independent sums: an
/// addition does not wait for the previous one.
template <class Real, int W, class F>
[[gnu::always_inline]] inline void sum_pixels(std::size_t pixels, double_sums<W>& a,
                                              double_sums<W>& b, const F& terms) {
  constexpr std::size_t unroll = 4;
  for (std::size_t p = 0; p < pixels;) {
    const std::size_t last = std::min(p + pixels_per_partial_sum, pixels);
    vec<Real, W> sum[unroll] = {}, product[unroll] = {};
    for (; p + unroll <= last; p += unroll)
#pragma GCC unroll 4
      for (std::size_t k = 0; k < unroll; ++k) {
        const auto [x, y] = terms(p + k);
        sum[k] += x;
        product[k] += y;
      }
    for (; p < last; ++p) {
      const auto [x, y] = terms(p);
      sum[0] += x;
      product[0] += y;
    }
    a.template add<Real>(sum[0] + sum[1] + (sum[2] + sum[3]));
    b.template add<Real>(product[0] + product[1] + (product[2] + product[3]));
  }
}

/// Mean and sum of squared deviations of each channel of a block. One pass over x - x[0]: with a
/// shift of the data's magnitude the difference of squares does not cancel.
template <class N, int V>
[[gnu::noinline]] void block_moments(std::size_t pixels, const N* x, double* mean,
                                     double* deviations) {
  using Real = precision::wide<N>;
  constexpr int W = register_lanes<V>, D = double_sums<W>::D;
  using vector = vec<Real, W>;
  const double share = 1 / static_cast<double>(pixels);
  for (int lane = 0; lane < V; lane += W) {
    const N* in = x + lane;
    const vector shift = load<N, W>(in);
    double_sums<W> origin, sum, square;
    origin.template add<Real>(shift);
    sum_pixels<Real>(pixels, sum, square, [&](std::size_t p) {
      const vector d = load<N, W>(in + p * V) - shift;
      return term_pair<Real, W>{d, d * d};
    });
    for (int k = 0; k < W / D; ++k) {
      const vec<double, D> offset = sum.part[k] * share, m2 = square.part[k] - sum.part[k] * offset,
                           zero{};
      store<double, D>(mean + lane + k * D, origin.part[k] + offset);
      store<double, D>(deviations + lane + k * D, m2 < zero ? zero : m2);  // NaN stays NaN
    }
  }
}

/// y <- f((x - mean) scale + shift (+ residual)) on one block.
template <class N, int V, class Epilogue>
[[gnu::noinline]] void normalize_block(std::size_t pixels, const N* x,
                                       const precision::wide<N>* mean,
                                       const precision::wide<N>* scale,
                                       const precision::wide<N>* shift, const N* residual, N* y) {
  using Real = precision::wide<N>;
  constexpr int W = register_lanes<V>;
  using vector = vec<Real, W>;
  const vector zero{};
  for (int lane = 0; lane < V; lane += W) {
    const vector c = load<Real, W>(mean + lane), a = load<Real, W>(scale + lane),
                 b = load<Real, W>(shift + lane);
    for (std::size_t p = 0, i = static_cast<std::size_t>(lane); p < pixels; ++p, i += V) {
      vector z = (load<N, W>(x + i) - c) * a + b;
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) z += load<N, W>(residual + i);
      if constexpr (!std::same_as<Epilogue, epilogue::store>) z = z < zero ? zero : z;
      store<N, W>(y + i, z);
    }
  }
}

/// The gradient of gamma h + beta at one pixel: dy, masked where the ReLU's output is zero.
template <class N, int W, class Epilogue>
[[gnu::always_inline]] inline vec<precision::wide<N>, W> epilogue_gradient(const N* dy,
                                                                           const N* y) {
  const vec<precision::wide<N>, W> g = load<N, W>(dy), zero{};
  if constexpr (std::same_as<Epilogue, epilogue::store>)
    return g;
  else
    return load<N, W>(y) > zero ? g : zero;
}

/// shift <- sum(g) and scale <- sum(g h) of each channel of a block, with g = epilogue_gradient.
/// With a residual, dy <- g, which is also the residual's gradient.
template <class N, int V, class Epilogue>
[[gnu::noinline]] void block_gradient_sums(std::size_t pixels, const N* x, const N* y, N* dy,
                                           const precision::wide<N>* mean,
                                           const precision::wide<N>* inv_std, double* shift,
                                           double* scale) {
  using Real = precision::wide<N>;
  constexpr int W = register_lanes<V>, D = double_sums<W>::D;
  using vector = vec<Real, W>;
  for (int lane = 0; lane < V; lane += W) {
    const vector c = load<Real, W>(mean + lane);
    double_sums<W> factor, sum, product;
    factor.template add<Real>(load<Real, W>(inv_std + lane));
    sum_pixels<Real>(pixels, sum, product, [&](std::size_t p) {
      const std::size_t i = p * V + static_cast<std::size_t>(lane);
      const vector g = epilogue_gradient<N, W, Epilogue>(dy + i, y + i);
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) store<N, W>(dy + i, g);
      return term_pair<Real, W>{g, g * (load<N, W>(x + i) - c)};
    });
    for (int k = 0; k < W / D; ++k) {
      store<double, D>(shift + lane + k * D, sum.part[k]);
      store<double, D>(scale + lane + k * D, product.part[k] * factor.part[k]);
    }
  }
}

/// dx <- scale g - shift - (x - mean) slope on one block; dx may be dy.
template <class N, int V, class Epilogue>
[[gnu::noinline]] void block_input_gradient(std::size_t pixels, const N* x, const N* y, const N* dy,
                                            const precision::wide<N>* mean,
                                            const precision::wide<N>* scale,
                                            const precision::wide<N>* shift,
                                            const precision::wide<N>* slope, N* dx) {
  using Real = precision::wide<N>;
  constexpr int W = register_lanes<V>;
  using vector = vec<Real, W>;
  for (int lane = 0; lane < V; lane += W) {
    const vector c = load<Real, W>(mean + lane), a = load<Real, W>(scale + lane),
                 b = load<Real, W>(shift + lane), k = load<Real, W>(slope + lane);
    for (std::size_t p = 0, i = static_cast<std::size_t>(lane); p < pixels; ++p, i += V) {
      const vector g = epilogue_gradient<N, W, Epilogue>(dy + i, y + i);
      store<N, W>(dx + i, a * g - b - (load<N, W>(x + i) - c) * k);
    }
  }
}

/// Calls f(sample, block) for all blocks, in the order of memory. A worker gets the same blocks in
/// every call, so that they may still be in its cache.
template <class F>
void for_each_block(int samples, std::size_t blocks, cpu::stream s, const F& f) {
  device::parallel_chunks(s, static_cast<std::size_t>(samples) * blocks, 1,
                          [&](std::size_t first, std::size_t last) {
                            for (std::size_t i = first; i < last; ++i) f(i / blocks, i % blocks);
                          });
}

/// Calls f(first, last) for ranges of blocks, or once for all blocks. Few channels are not worth
/// waking another worker.
template <int V, class F>
void for_each_block_range(std::size_t blocks, bool single_range, cpu::stream s, const F& f) {
  if (single_range)
    f(std::size_t{0}, blocks);
  else
    device::parallel_chunks(s, blocks, std::max(64 / V, 1), f);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
