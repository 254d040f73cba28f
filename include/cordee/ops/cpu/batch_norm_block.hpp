// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of batch normalisation: one block of channels of one sample, (pixels, V), at a
// time; and how workers share the blocks. batch_norm.hpp calls them and merges their sums.
//
// The loops are never inlined: a call costs little beside a block, and each is compiled once.
#pragma once

#include <concepts>
#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/cpu/channel_registers.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// memory + offset; null where the memory is absent.
template <class N>
const N* offset_or_null(const N* memory, std::size_t offset) {
  return memory == nullptr ? nullptr : memory + offset;
}

/// One sum in double for each channel of the registers R.
template <class R>
struct double_sums {
  using real = typename R::real;
  static constexpr int D = std::min(R::width, lanes<double>), parts = R::channels / D;
  using vector = vec<double, D>;
  vector part[std::size_t{parts}] = {};

  [[gnu::always_inline]] void add(const typename R::type& value) {
    real each[std::size_t{R::channels * R::pixels}];  // of interleaved pixels: (2, pixels, V / 2)
    if constexpr (R::in_pairs) {
      store<real, R::width>(each, value.first);
      store<real, R::width>(each + R::width, value.second);
    } else {
      store<real, R::width>(each, value);
    }
    for (int k = 0; k < parts; ++k)
      for (int p = 0; p < R::pixels; ++p)
        part[k] += __builtin_convertvector((load<real, D>(each + (k * R::pixels + p) * D)), vector);
  }
  /// Writes f(k) of all parts k, in the order of the channels.
  template <class F>
  [[gnu::always_inline]] static void write(double* to, const F& f) {
    if constexpr (R::is_interleaved) {
      double each[std::size_t{R::channels}];
      for (int k = 0; k < parts; ++k) store<double, D>(each + k * D, f(k));
      for (int k = 0; k < R::channels; ++k) to[R::channel_of(k)] = each[k];
    } else {
      for (int k = 0; k < parts; ++k) store<double, D>(to + k * D, f(k));
    }
  }
};

/// Pixels summed in `real` before the partial sum is added in double.
inline constexpr std::size_t pixels_per_partial_sum = 512;

template <class R>
struct term_pair {
  typename R::type first, second;
};

/// Adds the sums over all pixels of two terms, {a, b} = terms(pixels of R, index). Four independent
/// sums: an addition does not wait for the previous one.
template <class R, class F>
[[gnu::always_inline]] inline void sum_pixels(std::size_t pixels, double_sums<R>& a,
                                              double_sums<R>& b, const F& terms) {
  constexpr std::size_t unroll = 4, step = R::pixels;
  using registers = typename R::type;
  for (std::size_t p = 0; p < pixels;) {
    const std::size_t last = std::min(p + pixels_per_partial_sum * step, pixels);
    registers sum[unroll] = {}, product[unroll] = {};
    for (; p + unroll * step <= last; p += unroll * step)
#pragma GCC unroll 4
      for (std::size_t k = 0; k < unroll; ++k) {
        const auto [x, y] = terms(typename R::all_pixels{}, p + k * step);
        sum[k] = sum[k] + x;
        product[k] = product[k] + y;
      }
    R::for_each_pixel(last - p, [&](auto some, std::size_t i) {
      const auto [x, y] = terms(some, p + i);
      sum[0] = sum[0] + x;
      product[0] = product[0] + y;
    });
    p = last;
    a.add(sum[0] + sum[1] + (sum[2] + sum[3]));
    b.add(product[0] + product[1] + (product[2] + product[3]));
  }
}

/// Mean and sum of squared deviations of each channel of a block. One pass over x - x[0]: with a
/// shift of the data's magnitude the difference of squares does not cancel.
template <class N, int V>
[[gnu::noinline]] void block_moments(std::size_t pixels, const N* x, double* mean,
                                     double* deviations) {
  using R = channel_registers<N, V>;
  using sums = double_sums<R>;
  const double share = 1 / static_cast<double>(pixels);
  for (int lane = 0; lane < V; lane += R::channels) {
    const N* in = x + lane;
    typename R::real first[std::size_t{R::channels}];
    for (int k = 0; k < R::channels; ++k) first[k] = precision::widened(in[k]);
    const auto shift = R::load_row(first);
    sums origin, sum, square;
    origin.add(R::origin::masked(shift));
    sum_pixels(pixels, sum, square, [&](auto some, std::size_t p) {
      const auto d = some.masked(some.load(in + p * V) - shift);
      return term_pair<R>{d, d * d};
    });
    sums::write(mean + lane, [&](int k) { return origin.part[k] + sum.part[k] * share; });
    sums::write(deviations + lane, [&](int k) {
      return rectified(square.part[k] - sum.part[k] * (sum.part[k] * share));
    });
  }
}

/// y <- f((x - mean) scale + shift (+ residual)) on one block.
template <class N, int V, class Epilogue>
[[gnu::noinline]] void normalize_block(std::size_t pixels, const N* x,
                                       const precision::wide<N>* mean,
                                       const precision::wide<N>* scale,
                                       const precision::wide<N>* shift, const N* residual, N* y) {
  using R = channel_registers<N, V>;
  for (int lane = 0; lane < V; lane += R::channels) {
    const auto c = R::load_row(mean + lane), a = R::load_row(scale + lane),
               b = R::load_row(shift + lane);
    R::for_each_pixel(pixels, [&](auto some, std::size_t p) {
      const std::size_t i = p * V + static_cast<std::size_t>(lane);
      auto z = (some.load(x + i) - c) * a + b;
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) z = z + some.load(residual + i);
      if constexpr (!std::same_as<Epilogue, epilogue::store>) z = rectified(z);
      some.store(y + i, z);
    });
  }
}

/// The gradient of gamma h + beta at `some` pixels: dy, masked where the ReLU's output is zero.
template <class Epilogue, class Pixels, class N>
[[gnu::always_inline]] inline auto epilogue_gradient(Pixels some, const N* dy, const N* y) {
  if constexpr (std::same_as<Epilogue, epilogue::store>)
    return some.load(dy);
  else
    return where_positive(some.load(y), some.load(dy));
}

/// shift <- sum(g) and scale <- sum(g h) of each channel of a block, with g = epilogue_gradient.
/// dy <- g: the second pass reads no y, and with a residual g is its gradient.
template <class N, int V, class Epilogue>
[[gnu::noinline]] void block_gradient_sums(std::size_t pixels, const N* x, const N* y, N* dy,
                                           const precision::wide<N>* mean,
                                           const precision::wide<N>* inv_std, double* shift,
                                           double* scale) {
  using R = channel_registers<N, V>;
  using sums = double_sums<R>;
  for (int lane = 0; lane < V; lane += R::channels) {
    const auto c = R::load_row(mean + lane);
    sums factor, sum, product;
    factor.add(R::origin::masked(R::load_row(inv_std + lane)));
    sum_pixels(pixels, sum, product, [&](auto some, std::size_t p) {
      const std::size_t i = p * V + static_cast<std::size_t>(lane);
      const auto g = epilogue_gradient<Epilogue>(some, dy + i, y + i);
      if constexpr (!std::same_as<Epilogue, epilogue::store>) some.store(dy + i, g);
      return term_pair<R>{g, g * (some.load(x + i) - c)};
    });
    sums::write(shift + lane, [&](int k) { return sum.part[k]; });
    sums::write(scale + lane, [&](int k) { return product.part[k] * factor.part[k]; });
  }
}

/// dx <- scale g - shift - (x - mean) slope on one block; dx may be g.
template <class N, int V>
[[gnu::noinline]] void block_input_gradient(std::size_t pixels, const N* x, const N* g,
                                            const precision::wide<N>* mean,
                                            const precision::wide<N>* scale,
                                            const precision::wide<N>* shift,
                                            const precision::wide<N>* slope, N* dx) {
  using R = channel_registers<N, V>;
  for (int lane = 0; lane < V; lane += R::channels) {
    const auto c = R::load_row(mean + lane), a = R::load_row(scale + lane),
               b = R::load_row(shift + lane), k = R::load_row(slope + lane);
    R::for_each_pixel(pixels, [&](auto some, std::size_t p) {
      const std::size_t i = p * V + static_cast<std::size_t>(lane);
      some.store(dx + i, a * some.load(g + i) - b - (some.load(x + i) - c) * k);
    });
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

/// Calls f(first, last) for ranges of blocks, or once for all blocks if single_range. Few channels
/// are not worth waking another worker.
template <int V, class F>
void for_each_block_range(std::size_t blocks, bool single_range, cpu::stream s, const F& f) {
  if (single_range)
    f(std::size_t{0}, blocks);
  else
    device::parallel_chunks(s, blocks, std::max(64 / V, 1), f);
}

/// Calls sum(sample, block) for all blocks, merge(first, last) as for_each_block_range, and then
/// apply(sample, block) for all blocks. If the blocks divide evenly among the workers, or are at
/// least 8 for each, one worker takes all three calls for a block: `apply` from the last sample
/// back, since what `sum` read last is in its cache. Otherwise, and with single_range (`merge` is
/// collective, and called once), the calls follow one another. The bits are the same if a block's
/// `merge` does not depend on its range.
template <int V, class Sum, class Merge, class Apply>
void in_two_passes(int samples, std::size_t blocks, bool single_range, cpu::stream s,
                   const Sum& sum, const Merge& merge, const Apply& apply) {
  const auto n = static_cast<std::size_t>(samples),
             workers = static_cast<std::size_t>(device::workers_of(s));
  if (single_range || (blocks % workers != 0 && blocks < 8 * workers)) {
    for_each_block(samples, blocks, s, sum);
    for_each_block_range<V>(blocks, single_range, s, merge);
    return for_each_block(samples, blocks, s, apply);
  }
  device::parallel_dynamic(s, blocks, [&](std::size_t b) {
    for (std::size_t k = 0; k < n; ++k) sum(k, b);
    merge(b, b + 1);
    for (std::size_t k = n; k-- > 0;) apply(k, b);
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
