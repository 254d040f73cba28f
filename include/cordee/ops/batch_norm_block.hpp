// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of batch normalisation: one block of channels of one sample at a time.
//
// They are what takes the time; who runs them when, and what is merged how, is batch_norm.hpp's.
// They are never inlined: a call costs nothing beside a block, and each is compiled once.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {

/// What happens to gamma h + beta before it is stored.
namespace epilogue {
struct store {};
struct relu {};
struct add_relu {};  // the ReLU of its sum with a residual
}  // namespace epilogue

namespace detail {

/// Where a block begins in memory that may be absent.
template <class Real>
const Real* behind(const Real* memory, std::size_t offset) {
  return memory == nullptr ? nullptr : memory + offset;
}

/// Lanes that one register takes of a block of V: all of them, or one by one where V is odd.
template <int V>
inline constexpr int register_lanes = (V & (V - 1)) == 0 ? V : 1;

/// A sum for each of W lanes, in double.
template <int W>
struct double_lanes {
  static constexpr int D = std::min(W, lanes<double>);
  vec<double, D> part[W / D] = {};

  template <class Real>
  [[gnu::always_inline]] void add(vec<Real, W> narrow) {
    Real each[W];
    store<Real, W>(each, narrow);
    for (int k = 0; k < W / D; ++k)
      part[k] += __builtin_convertvector((load<Real, D>(each + k * D)), vec<double, D>);
  }
};

/// Pixels summed in Real before the sum moves to double.
inline constexpr std::size_t summands = 512;

template <class Real, int W>
struct two_terms {
  vec<Real, W> first, second;
};

/// The sums over all pixels of two terms, {a, b} = terms(pixel). Four pixels are summed beside each
/// other, so that no addition waits for the one before.
template <class Real, int W, class F>
[[gnu::always_inline]] inline void sum_pixels(std::size_t pixels, double_lanes<W>& a,
                                              double_lanes<W>& b, const F& terms) {
  constexpr std::size_t ways = 4;
  for (std::size_t p = 0; p < pixels;) {
    const std::size_t last = std::min(p + summands, pixels);
    vec<Real, W> sum[ways] = {}, product[ways] = {};
    for (; p + ways <= last; p += ways)
#pragma GCC unroll 4
      for (std::size_t k = 0; k < ways; ++k) {
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

/// Mean and sum of squared deviations of one block of one sample. One pass over x - x[0]: the shift
/// is a value of the data, so the square of the mean cannot swallow the deviations.
template <class Real, int V>
[[gnu::noinline]] void block_moments(std::size_t pixels, const Real* x, double* mean,
                                     double* deviations) {
  constexpr int W = register_lanes<V>, D = double_lanes<W>::D;
  using pack = vec<Real, W>;
  const double share = 1 / static_cast<double>(pixels);
  for (int lane = 0; lane < V; lane += W) {
    const Real* in = x + lane;
    const pack shift = load<Real, W>(in);
    double_lanes<W> origin, sum, square;
    origin.template add<Real>(shift);
    sum_pixels<Real>(pixels, sum, square, [&](std::size_t p) {
      const pack d = load<Real, W>(in + p * V) - shift;
      return two_terms<Real, W>{d, d * d};
    });
    for (int k = 0; k < W / D; ++k) {
      const vec<double, D> away = sum.part[k] * share, m2 = square.part[k] - sum.part[k] * away,
                           zero{};
      store<double, D>(mean + lane + k * D, origin.part[k] + away);
      store<double, D>(deviations + lane + k * D, m2 < zero ? zero : m2);  // not a number stays so
    }
  }
}

/// y <- f((x - centre) scale + shift (+ residual)) on one block of one sample.
template <class Real, int V, class Epilogue>
[[gnu::noinline]] void block_apply(std::size_t pixels, const Real* x, const Real* centre,
                                   const Real* scale, const Real* shift, const Real* residual,
                                   Real* y) {
  constexpr int W = register_lanes<V>;
  using pack = vec<Real, W>;
  const pack zero{};
  for (int lane = 0; lane < V; lane += W) {
    const pack c = load<Real, W>(centre + lane), a = load<Real, W>(scale + lane),
               b = load<Real, W>(shift + lane);
    for (std::size_t p = 0, i = static_cast<std::size_t>(lane); p < pixels; ++p, i += V) {
      pack z = (load<Real, W>(x + i) - c) * a + b;
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) z += load<Real, W>(residual + i);
      if constexpr (!std::same_as<Epilogue, epilogue::store>) z = z < zero ? zero : z;
      store<Real, W>(y + i, z);
    }
  }
}

/// The gradient behind the epilogue at one place: zero where the ReLU gave nothing.
template <class Real, int W, class Epilogue>
[[gnu::always_inline]] inline vec<Real, W> masked(const Real* dy, const Real* y) {
  const vec<Real, W> g = load<Real, W>(dy), zero{};
  if constexpr (std::same_as<Epilogue, epilogue::store>)
    return g;
  else
    return load<Real, W>(y) > zero ? g : zero;
}

/// sum(g) and sum(g h) of one block of one sample; where a residual was added, g takes dy's place,
/// since it is also what the residual receives.
template <class Real, int V, class Epilogue>
[[gnu::noinline]] void block_sums(std::size_t pixels, const Real* x, const Real* y, Real* dy,
                                  const Real* centre, const Real* inverse, double* shift,
                                  double* scale) {
  constexpr int W = register_lanes<V>, D = double_lanes<W>::D;
  using pack = vec<Real, W>;
  for (int lane = 0; lane < V; lane += W) {
    const pack c = load<Real, W>(centre + lane);
    double_lanes<W> factor, sum, product;
    factor.template add<Real>(load<Real, W>(inverse + lane));
    sum_pixels<Real>(pixels, sum, product, [&](std::size_t p) {
      const std::size_t i = p * V + static_cast<std::size_t>(lane);
      const pack g = masked<Real, W, Epilogue>(dy + i, y + i);
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) store<Real, W>(dy + i, g);
      return two_terms<Real, W>{g, g * (load<Real, W>(x + i) - c)};
    });
    for (int k = 0; k < W / D; ++k) {
      store<double, D>(shift + lane + k * D, sum.part[k]);
      store<double, D>(scale + lane + k * D, product.part[k] * factor.part[k]);
    }
  }
}

/// dx <- scale g - shift - (x - centre) slope on one block of one sample; dx may be dy.
template <class Real, int V, class Epilogue>
[[gnu::noinline]] void block_gradient(std::size_t pixels, const Real* x, const Real* y,
                                      const Real* dy, const Real* centre, const Real* scale,
                                      const Real* shift, const Real* slope, Real* dx) {
  constexpr int W = register_lanes<V>;
  using pack = vec<Real, W>;
  for (int lane = 0; lane < V; lane += W) {
    const pack c = load<Real, W>(centre + lane), a = load<Real, W>(scale + lane),
               b = load<Real, W>(shift + lane), k = load<Real, W>(slope + lane);
    for (std::size_t p = 0, i = static_cast<std::size_t>(lane); p < pixels; ++p, i += V) {
      const pack g = masked<Real, W, Epilogue>(dy + i, y + i);
      store<Real, W>(dx + i, a * g - b - (load<Real, W>(x + i) - c) * k);
    }
  }
}

/// Calls f(sample, block) for all of them, in the order of memory. Whoever visited one visits it
/// again the next time, and finds what its caches kept.
template <class F>
void for_each_block(int samples, std::size_t blocks, cpu::stream s, const F& f) {
  parallel(s, static_cast<std::size_t>(samples) * blocks, 1,
           [&](std::size_t first, std::size_t last) {
             for (std::size_t i = first; i < last; ++i) f(i / blocks, i % blocks);
           });
}

/// Calls f(first, last) for ranges of blocks, once for all of them if they go `together`. A few
/// channels are not worth another worker's attention.
template <int V, class F>
void for_ranges_of_blocks(std::size_t blocks, bool together, cpu::stream s, const F& f) {
  if (together)
    f(std::size_t{0}, blocks);
  else
    parallel(s, blocks, std::max(64 / V, 1), f);
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
