// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The logits of a residual network in training, in exact arithmetic (double), of which only what
// must be stored is rounded: images, the results of convolutions, of norms with their sum and ReLU,
// of the mean over pixels, and the logits. What a precision cannot avoid, and faults beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <cordee/cordee.hpp>

namespace bench {

using namespace cordee;
using doubles = std::vector<double>;

/// What a step might do wrong: round sums after every 16 products, round a norm's mean and inverse
/// deviation, store by truncation, leave a norm's scale out.
enum class fault { none, accumulation, statistics, truncation, scale };

/// x as N stores it, of any size, to nearest or toward zero: not by the library's conversions.
template <Number N>
double stored(double x, bool truncated = false) {
  constexpr int digits = std::same_as<N, half> ? 11 : std::same_as<N, bfloat> ? 8 : 24;
  constexpr int least = std::same_as<N, half> ? -14 : -126;  // the exponent of subnormal numbers
  if (std::same_as<N, double> || x == 0 || !std::isfinite(x)) return x;
  const int shift = std::max(std::ilogb(x), least) - (digits - 1);
  const double units = std::ldexp(x, -shift);
  return std::ldexp(truncated ? std::trunc(units) : std::nearbyint(units), shift);
}

template <Number N>
class rounded_network {
 public:
  /// `plane` as N holds it; the fault of the scale is in norm number `of_norm`.
  rounded_network(const doubles& plane, std::span<const segment> table, int samples,
                  fault wrong = fault::none, int of_norm = 0)
      : plane_(plane), table_(table), samples_(samples), wrong_(wrong), of_norm_(of_norm) {}

  /// Images and logits are (samples, channels, height, width).
  template <class Net>
  doubles logits(const doubles& images) {
    tensor_ = 0;
    norm_ = 0;
    return run<Net::input>(static_cast<const typename Net::layers*>(nullptr), keep(images));
  }

 private:
  [[nodiscard]] doubles keep(doubles y) const {
    for (double& x : y) x = stored<N>(x, wrong_ == fault::truncation);
    return y;
  }
  const double* next_tensor() { return plane_.data() + table_[tensor_++].offset; }

  template <extent In, class L, class... Rest>
  doubles run(const sequential<L, Rest...>*, doubles x) {
    x = run<In>(static_cast<const L*>(nullptr), std::move(x));
    if constexpr (sizeof...(Rest) > 0)
      x = run<L::out(In)>(static_cast<const sequential<Rest...>*>(nullptr), std::move(x));
    return x;
  }
  template <extent In, int Times, class L>
  doubles run(const repeat<Times, L>*, doubles x) {
    for (int i = 0; i < Times; ++i) x = run<In>(static_cast<const L*>(nullptr), std::move(x));
    return x;
  }
  template <extent In, class L>
  doubles run(const detail::nn::plain_block<L>*, doubles x) {
    return run<In>(static_cast<const L*>(nullptr), std::move(x));
  }
  template <extent In, class Body, class Norm, class Shortcut>
  doubles run(const residual<Body, Norm, Shortcut>*, doubles x) {
    const doubles y = run<In>(static_cast<const Body*>(nullptr), x);
    const double *const gamma = next_tensor(), *const beta = next_tensor();
    const doubles added = run<In>(static_cast<const Shortcut*>(nullptr), std::move(x));
    return norm(y, Body::out(In), gamma, beta, true, added.data());
  }
  template <extent In>
  doubles run(const identity*, doubles x) {
    return x;
  }
  template <extent In, int K, int W, int T>
  doubles run(const convolution<K, W, T>*, doubles x) {
    return convolve(x, In, convolution<K, W, T>::out(In), W, T);
  }
  template <extent In, class A, batch_norm_options With>
  doubles run(const batch_norm<A, With>*, doubles x) {
    const double *const gamma = next_tensor(), *const beta = next_tensor();
    return norm(x, In, gamma, beta, std::same_as<A, relu>, nullptr);
  }
  template <extent In, int C, int T>
  doubles run(const subsample_pad<C, T>*, doubles x) {
    constexpr extent out = subsample_pad<C, T>::out(In);
    constexpr int before = (C - In.channels) / 2;
    return each_number(out, [&](int n, int c, int h, int w) {
      return c < before || c >= before + In.channels ? 0 : x[at(In, n, c - before, h * T, w * T)];
    });
  }
  template <extent In, int W, int T, int P>
  doubles run(const max_pool<W, T, P>*, doubles x) {
    return each_number(max_pool<W, T, P>::out(In), [&](int n, int c, int h, int w) {
      double most = -1e300;
      for (int i = std::max(0, h * T - P); i < std::min(In.height, h * T - P + W); ++i)
        for (int j = std::max(0, w * T - P); j < std::min(In.width, w * T - P + W); ++j)
          most = std::max(most, x[at(In, n, c, i, j)]);
      return most;
    });
  }
  template <extent In>
  doubles run(const global_average_pool*, doubles x) {
    return keep(each_number({In.channels, 1, 1}, [&](int n, int c, int, int) {
      double sum = 0;
      for (int i = 0; i < In.height * In.width; ++i) sum += x[at(In, n, c, 0, i)];
      return sum / (In.height * In.width);
    }));
  }
  template <extent In, int C>
  doubles run(const linear<C>*, doubles x) {
    const double *const w = next_tensor(), *const bias = next_tensor();
    return keep(each_number({C, 1, 1}, [&](int n, int c, int, int) {
      double sum = bias[c];
      for (int k = 0; k < In.channels; ++k)
        sum += w[static_cast<std::size_t>(c * In.channels + k)] * x[at(In, n, k, 0, 0)];
      return sum;
    }));
  }

  static std::size_t at(const extent& e, int n, int c, int h, int w) {
    return ((static_cast<std::size_t>(n) * static_cast<std::size_t>(e.channels) +
             static_cast<std::size_t>(c)) *
                static_cast<std::size_t>(e.height) +
            static_cast<std::size_t>(h)) *
               static_cast<std::size_t>(e.width) +
           static_cast<std::size_t>(w);
  }
  template <class F>
  doubles each_number(const extent& e, const F& f) const {
    doubles y;
    y.reserve(static_cast<std::size_t>(samples_) * e.size());
    for (int n = 0; n < samples_; ++n)
      for (int c = 0; c < e.channels; ++c)
        for (int h = 0; h < e.height; ++h)
          for (int w = 0; w < e.width; ++w) y.push_back(f(n, c, h, w));
    return y;
  }

  doubles convolve(const doubles& x, const extent& in, const extent& out, int window, int stride) {
    constexpr int pixels = 32;  // at once
    const double* const weights = next_tensor();
    const int products = in.channels * window * window, area = out.height * out.width;
    const int step = wrong_ == fault::accumulation ? 16 : products;
    doubles y(static_cast<std::size_t>(samples_) * out.size()),
        columns(static_cast<std::size_t>(products * pixels));
    for (int n = 0; n < samples_; ++n)
      for (int first = 0; first < area; first += pixels) {
        const int count = std::min(pixels, area - first);
        gather(x, in, out.width, n, first, count, window, stride, columns.data());
        for (int k = 0; k < out.channels; ++k) {
          double sums[pixels] = {};
          for (int from = 0; from < products; from += step) {
            double part[pixels] = {};
            for (int j = from; j < std::min(products, from + step); ++j)
              for (int p = 0; p < pixels; ++p)
                part[p] += weights[static_cast<std::size_t>(k * products + j)] *
                           columns[static_cast<std::size_t>(j * pixels + p)];
            for (int p = 0; p < pixels; ++p)
              sums[p] = wrong_ == fault::accumulation ? stored<N>(sums[p] + part[p]) : part[p];
          }
          std::copy_n(sums, count, y.data() + at(out, n, k, 0, first));
        }
      }
    return keep(std::move(y));
  }
  /// columns (products, 32) <- the inputs of `count` pixels of the output.
  static void gather(const doubles& x, const extent& in, int width, int n, int first, int count,
                     int window, int stride, double* columns) {
    for (int c = 0; c < in.channels; ++c)
      for (int r = 0; r < window * window; ++r, columns += 32)
        for (int p = 0; p < count; ++p) {
          const int h = (first + p) / width * stride + r / window - window / 2,
                    w = (first + p) % width * stride + r % window - window / 2;
          const bool inside = h >= 0 && h < in.height && w >= 0 && w < in.width;
          columns[p] = inside ? x[at(in, n, c, h, w)] : 0;
        }
  }

  doubles norm(const doubles& x, const extent& e, const double* gamma, const double* beta,
               bool rectified, const double* added) {
    const int area = e.height * e.width;
    const bool unscaled = wrong_ == fault::scale && norm_++ == of_norm_;
    doubles y(x.size());
    for (int c = 0; c < e.channels; ++c) {
      const auto each = [&](const auto& f) {
        for (int n = 0; n < samples_; ++n)
          for (int p = 0; p < area; ++p) f(at(e, n, c, 0, p));
      };
      double mean = 0, variance = 0;
      each([&](std::size_t i) { mean += x[i] / (samples_ * area); });
      each([&](std::size_t i) { variance += (x[i] - mean) * (x[i] - mean) / (samples_ * area); });
      double inverse = 1 / std::sqrt(variance + detail::ops::batch_norm_problem::epsilon);
      if (wrong_ == fault::statistics) mean = stored<N>(mean), inverse = stored<N>(inverse);
      each([&](std::size_t i) {
        const double z = (x[i] - mean) * inverse * (unscaled ? 1 : gamma[c]) + beta[c] +
                         (added != nullptr ? added[i] : 0);
        y[i] = rectified ? std::max(z, 0.0) : z;
      });
    }
    return keep(std::move(y));
  }

  const doubles& plane_;
  std::span<const segment> table_;
  int samples_;
  fault wrong_;
  int of_norm_;
  std::size_t tensor_ = 0;
  int norm_ = 0;
};

}  // namespace bench
