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

/// Pixels summed in Real before the sum moves to double.
inline constexpr std::size_t summands = 512;

/// Mean and sum of squared deviations of one block of one sample. One pass over x - x[0]: the shift
/// is a value of the data, so the square of the mean cannot swallow the deviations.
template <class Real, int V>
[[gnu::noinline]] void block_moments(std::size_t pixels, const Real* x, double* mean,
                                     double* deviations) {
  constexpr int W = register_lanes<V>;
  using pack = vec<Real, W>;
  for (int lane = 0; lane < V; lane += W) {
    const Real* in = x + lane;
    const pack origin = load<Real, W>(in);
    double sum[W] = {}, square[W] = {};
    for (std::size_t first = 0; first < pixels; first += summands) {
      const std::size_t last = std::min(first + summands, pixels);
      pack s0{}, s1{}, q0{}, q1{};
      std::size_t p = first;
      for (; p + 2 <= last; p += 2) {
        const pack d0 = load<Real, W>(in + p * V) - origin;
        const pack d1 = load<Real, W>(in + p * V + V) - origin;
        s0 += d0;
        s1 += d1;
        q0 += d0 * d0;
        q1 += d1 * d1;
      }
      if (p < last) {
        const pack d0 = load<Real, W>(in + p * V) - origin;
        s0 += d0;
        q0 += d0 * d0;
      }
      s0 += s1;
      q0 += q1;
      for (int w = 0; w < W; ++w) {
        sum[w] += static_cast<double>(s0[w]);
        square[w] += static_cast<double>(q0[w]);
      }
    }
    for (int w = 0; w < W; ++w) {
      const double shift = sum[w] / static_cast<double>(pixels), m2 = square[w] - sum[w] * shift;
      mean[lane + w] = static_cast<double>(origin[w]) + shift;
      deviations[lane + w] = m2 < 0 ? 0 : m2;  // written so that not a number stays so
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
  constexpr int W = register_lanes<V>;
  using pack = vec<Real, W>;
  for (int lane = 0; lane < V; lane += W) {
    const pack c = load<Real, W>(centre + lane);
    double sum[W] = {}, product[W] = {};
    for (std::size_t first = 0; first < pixels; first += summands) {
      const std::size_t last = std::min(first + summands, pixels);
      pack s0{}, s1{}, q0{}, q1{};
      std::size_t p = first;
      for (; p + 2 <= last; p += 2) {
        const std::size_t i = p * V + static_cast<std::size_t>(lane), j = i + V;
        const pack g0 = masked<Real, W, Epilogue>(dy + i, y + i);
        const pack g1 = masked<Real, W, Epilogue>(dy + j, y + j);
        if constexpr (std::same_as<Epilogue, epilogue::add_relu>) {
          store<Real, W>(dy + i, g0);
          store<Real, W>(dy + j, g1);
        }
        s0 += g0;
        s1 += g1;
        q0 += g0 * (load<Real, W>(x + i) - c);
        q1 += g1 * (load<Real, W>(x + j) - c);
      }
      if (p < last) {
        const std::size_t i = p * V + static_cast<std::size_t>(lane);
        const pack g0 = masked<Real, W, Epilogue>(dy + i, y + i);
        if constexpr (std::same_as<Epilogue, epilogue::add_relu>) store<Real, W>(dy + i, g0);
        s0 += g0;
        q0 += g0 * (load<Real, W>(x + i) - c);
      }
      s0 += s1;
      q0 += q1;
      for (int w = 0; w < W; ++w) {
        sum[w] += static_cast<double>(s0[w]);
        product[w] += static_cast<double>(q0[w]);
      }
    }
    for (int w = 0; w < W; ++w) {
      shift[lane + w] = sum[w];
      scale[lane + w] = product[w] * static_cast<double>(inverse[lane + w]);
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

/// Calls f(sample, block) for all of them, samples spread over the workers.
template <class F>
void for_each_block(int samples, std::size_t blocks, cpu::stream s, const F& f) {
  parallel(s, static_cast<std::size_t>(samples), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t n = first; n < last; ++n)
      for (std::size_t b = 0; b < blocks; ++b) f(n, b);
  });
}

/// What a core surely keeps from one visit to the next.
inline constexpr std::size_t bytes_kept = 512 * 1024;

/// Visits every block twice: before(sample, block) and after(sample, block). In between, when all
/// samples of the blocks first .. last-1 were visited, comes between(first, last). Blocks of which
/// all samples, of so many bytes, stay near are taken one by one, each by one worker, unless
/// `together`: then memory is passed over once, and nobody waits for another.
template <class Before, class Between, class After>
void visit_twice(int samples, std::size_t blocks, std::size_t bytes, bool together, cpu::stream s,
                 const Before& before, const Between& between, const After& after) {
  const std::size_t workers =
      s.workers == nullptr ? 1 : static_cast<std::size_t>(s.workers->size());
  const bool even = blocks % workers == 0 || blocks >= 8 * workers;
  if (together || bytes > bytes_kept || !even) {
    for_each_block(samples, blocks, s, before);
    between(std::size_t{0}, blocks);
    for_each_block(samples, blocks, s, after);
    return;
  }
  const auto count = static_cast<std::size_t>(samples);
  parallel(s, blocks, 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t b = first; b < last; ++b) {
      for (std::size_t n = 0; n < count; ++n) before(n, b);
      between(b, b + 1);
      for (std::size_t n = 0; n < count; ++n) after(n, b);
    }
  });
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
