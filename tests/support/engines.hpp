// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Convolution engines from and to vectors in NCHW, and the definition that they are tested against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/random.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/layout.hpp>

#include "tests/support/numbers.hpp"

namespace support {

using namespace cordee;

template <class E, class R>
struct engine_of {
  using engine = E;
  using real = R;
};
inline std::string describe(const convolution_problem& p) {
  return concat(describe(p.in), " -> ", p.filters, ", window ", p.window, ", stride ", p.stride,
                ", padding ", p.padding);
}

inline std::size_t size(int n) { return static_cast<std::size_t>(n); }

/// Numbers on [-1, 1) that float and N hold exactly.
template <Number N = float>
std::vector<double> random_numbers(std::size_t n, std::uint64_t stream) {
  random_sequence draw(7, purpose::test, stream, 0);
  std::vector<double> v(n);
  for (double& x : v) {
    x = static_cast<float>(2 * draw.uniform() - 1);
    if constexpr (detail::precision::StorageOnly<N>) x = to_double(to_number<N>(x));
  }
  return v;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The definition, in NCHW: calls f(index of w, of x, of y) for every product.
template <class F>
void for_each_product(const convolution_problem& p, int samples, const F& f) {
  const extent out = p.out();
  const int window = p.window;
  for (int n = 0; n < samples; ++n)
    for (int k = 0; k < p.filters; ++k)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j)
          for (int c = 0; c < p.in.channels; ++c)
            for (int r = 0; r < window; ++r)
              for (int s = 0; s < window; ++s) {
                const int h = i * p.stride + r - p.padding, l = j * p.stride + s - p.padding;
                if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) continue;
                f(size(((k * p.in.channels + c) * window + r) * window + s),
                  size(((n * p.in.channels + c) * p.in.height + h) * p.in.width + l),
                  size(((n * p.filters + k) * out.height + i) * out.width + j));
              }
}

/// NCHW to an engine's layout and back. Padding channels are `fill`.
template <class Real>
std::vector<Real> nchw_to_blocked(const std::vector<double>& plain, const extent& e, int samples,
                                  int block, Real fill = Real{}) {
  std::vector<Real> v(size(samples) * detail::ops::sample_size(e, block), fill);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t pixel = i % e.pixels(), c = i / e.pixels() % size(e.channels);
    v[i / e.size() * detail::ops::sample_size(e, block) +
      (c / size(block) * e.pixels() + pixel) * size(block) + c % size(block)] =
        to_number<Real>(plain[i]);
  }
  return v;
}
template <class Real>
std::vector<double> plain(const std::vector<Real>& v, const extent& e, int samples, int block) {
  std::vector<double> out(size(samples) * e.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t pixel = i % e.pixels(), c = i / e.pixels() % size(e.channels);
    out[i] = to_double(v[i / e.size() * detail::ops::sample_size(e, block) +
                         (c / size(block) * e.pixels() + pixel) * size(block) + c % size(block)]);
  }
  return out;
}
/// The largest magnitude in padding channels.
template <class Real>
double padding_magnitude(std::vector<Real> v, const extent& e, int samples, int block) {
  const std::vector<double> channels = plain(v, e, samples, block);
  const std::vector<Real> zero_padded = nchw_to_blocked<Real>(channels, e, samples, block);
  double largest = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    largest = std::max(largest, std::abs(to_double(v[i]) - to_double(zero_padded[i])));
  return largest;
}

/// An engine from and to vectors in NCHW, on numbers of Real. Its functions are defined outside the
/// class, so that a runner may instantiate an engine once (direct_engines.hpp).
template <class Engine, class Real>
struct harness {
  using doubles = std::vector<double>;

  convolution_problem p;
  int samples = 1;
  cpu::stream stream{};

  int in_block = Engine::template block<Real>(p.in.channels);
  int out_block = Engine::template block<Real>(p.filters);
  double padding = 0;  // the largest magnitude in padding channels, which must be zero

  std::vector<Real> packed(const doubles& w) const;
  doubles fprop(const doubles& x, const doubles& w);
  /// Adds to `before` unless it is empty.
  doubles dgrad(const doubles& dy, const doubles& w, const doubles& before = {});
  doubles wgrad(const doubles& x, const doubles& dy, const doubles& before = {});
};

template <class Engine, class Real>
std::vector<Real> harness<Engine, Real>::packed(const doubles& w) const {
  // Initially garbage: the engine must write all that it reads.
  std::vector<Real> weights(Engine::template packed_size<Real>(p), to_number<Real>(99));
  const std::vector<detail::precision::wide<Real>> master(w.begin(), w.end());
  Engine::template pack<Real>(p, master.data(), weights.data(), stream);
  return weights;
}
template <class Engine, class Real>
std::vector<double> harness<Engine, Real>::fprop(const doubles& x, const doubles& w) {
  const auto in = nchw_to_blocked<Real>(x, p.in, samples, in_block);
  std::vector<Real> out(size(samples) * detail::ops::sample_size(p.out(), out_block),
                        to_number<Real>(99));
  Engine::template fprop<Real>(p, samples, in.data(), packed(w).data(), out.data(), stream);
  padding = std::max(padding, padding_magnitude(out, p.out(), samples, out_block));
  return plain(out, p.out(), samples, out_block);
}
template <class Engine, class Real>
std::vector<double> harness<Engine, Real>::dgrad(const doubles& dy, const doubles& w,
                                                 const doubles& before) {
  const auto in = nchw_to_blocked<Real>(dy, p.out(), samples, out_block);
  std::vector<Real> out(size(samples) * detail::ops::sample_size(p.in, in_block),
                        to_number<Real>(99));
  if (!before.empty()) out = nchw_to_blocked<Real>(before, p.in, samples, in_block);
  Engine::template dgrad<Real>(p, samples, in.data(), packed(w).data(), out.data(),
                               before.empty() ? write_mode::overwrite : write_mode::add, stream);
  padding = std::max(padding, padding_magnitude(out, p.in, samples, in_block));
  return plain(out, p.in, samples, in_block);
}
template <class Engine, class Real>
std::vector<double> harness<Engine, Real>::wgrad(const doubles& x, const doubles& dy,
                                                 const doubles& before) {
  const auto in = nchw_to_blocked<Real>(x, p.in, samples, in_block);
  const auto blocked_dy = nchw_to_blocked<Real>(dy, p.out(), samples, out_block);
  std::vector<detail::precision::wide<Real>> out(before.begin(), before.end());
  if (before.empty()) out.assign(p.weights(), detail::precision::wide<Real>{99});
  std::vector<Real> memory(Engine::template workspace<Real>(p, samples, stream),
                           to_number<Real>(99));
  Engine::template wgrad<Real>(p, samples, in.data(), blocked_dy.data(), out.data(),
                               before.empty() ? write_mode::overwrite : write_mode::add,
                               memory.data(), stream);
  return {out.begin(), out.end()};
}

/// n roundings of partial sums, none of which exceeds m = sum of |products|, leave an error of
/// about sqrt(n) eps m / 2 if they are independent (n eps m / 2 at worst). sqrt(n) eps m is
/// allowed: in fp64 at most 2e-14 of m; in fp32 2e-6 of m at n = 288, where one product is 3e-3 of
/// it. Sums of 16-bit numbers are sums in fp32, which are rounded once where they are stored as N.
template <class Real, class Stored = Real>
struct sums {
  std::vector<double> value, magnitude, terms;

  explicit sums(std::size_t n) : value(n), magnitude(n), terms(n) {}
  void add(std::size_t i, double product) {
    value[i] += product;
    magnitude[i] += std::abs(product);
    terms[i] += 1;
  }
  /// The largest error above the bound, as a multiple of it; 0 where all are within. A sum without
  /// terms must be exact.
  [[nodiscard]] double error_of(const std::vector<double>& result) const {
    REQUIRE(result.size() == value.size());
    double worst = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double allowed = std::numeric_limits<detail::precision::wide<Real>>::epsilon() *
                                 magnitude[i] * std::sqrt(terms[i]) +
                             storage_error<Stored>(value[i]) * (terms[i] > 0);
      // Written so that a NaN counts as an error.
      const double error = std::abs(result[i] - value[i]);
      if (!(error <= allowed)) worst = std::max(worst, error > 0 ? error / allowed : 1e300);
    }
    return worst;
  }
};

inline constexpr convolution_problem many_shapes[] = {
    // the shapes of residual networks
    {{16, 8, 8}, 16, 3, 1, 1},
    {{16, 28, 28}, 16, 3, 1, 1},
    {{32, 7, 7}, 32, 3, 1, 1},
    {{16, 8, 8}, 32, 3, 2, 1},
    {{16, 7, 7}, 32, 3, 2, 1},
    {{32, 9, 5}, 16, 1, 1, 0},
    {{32, 9, 5}, 48, 1, 2, 0},
    {{1, 28, 28}, 16, 3, 1, 1},
    {{3, 8, 8}, 16, 3, 1, 1},
    {{3, 13, 11}, 32, 7, 2, 3},
    // one pixel, few rows, many rows
    {{1, 1, 1}, 1, 1, 1, 0},
    {{16, 1, 1}, 16, 3, 1, 1},
    {{2, 1, 1}, 17, 3, 2, 1},
    {{5, 5, 7}, 16, 3, 1, 1},
    {{4, 5, 7}, 33, 5, 1, 2},
    {{32, 3, 40}, 16, 3, 1, 1},
    // channels that do not fill a block
    {{5, 9, 5}, 17, 3, 1, 1},
    {{17, 5, 7}, 5, 3, 2, 1},
    {{17, 7, 7}, 3, 1, 1, 0},
    {{3, 7, 7}, 4, 3, 2, 0},
    {{16, 5, 7}, 1, 5, 1, 1},
    {{48, 5, 7}, 48, 3, 1, 1},
    // paddings that are not half a window
    {{16, 9, 5}, 16, 1, 1, 1},
    {{5, 9, 5}, 16, 1, 2, 3},
    {{16, 8, 8}, 16, 3, 1, 0},
    {{16, 8, 8}, 16, 3, 2, 3},
    {{3, 7, 7}, 16, 5, 2, 0},
    {{5, 8, 8}, 5, 7, 1, 3},
    {{1, 9, 5}, 16, 5, 2, 3},
    {{16, 7, 9}, 32, 3, 3, 1},
    {{16, 9, 9}, 16, 2, 3, 0},
    {{16, 7, 7}, 16, 7, 1, 0},
};

}  // namespace support
