// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What cuDNN's fused graphs (ops/engines/cudnn/fused_graphs.hpp) compute, from their equations, in
// double, with a bound of the error of every number: each intermediate may be rounded to 16 bits,
// sums are in float, and what is summed over pixels may be the number before or after its rounding.
// Numbers of a tensor are in the order of its memory, NHWC; filters are (K, R, S, C).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/convolution.hpp>

#include "tests/support/bounded.hpp"
#include "tests/support/fused_tensors.hpp"

namespace support {

/// The numbers that a graph's outputs should be, and the comparison with those that they are.
class fused_reference : public fused_tensors {
 public:
  fused_reference(fused_graph kind, const convolution_problem& p, int samples)
      : fused_tensors(kind, p, samples), kind_(kind), p_(p) {}

  /// Number i of an output, from the inputs and the outputs before it.
  [[nodiscard]] bounded expected(role r, std::size_t i) const {
    using enum role;
    if (r == z) return read(i);
    if (r == y) return convolution(i);
    if (r == sum || r == squares) return statistic(i, r == squares);
    if (r == dw) return weight_gradient(i);
    if (r == dz) return masked_gradient(i);
    const bool other = r >= other_dgamma;  // of the outputs
    if (r == dgamma || r == dbeta || r == other_dgamma || r == other_dbeta)
      return parameter_gradient(norm_of(other), i, r == dgamma || r == other_dgamma);
    return factor(norm_of(other), r, i);
  }
  /// Compares the outputs, of large tensors `most` numbers that are spread over them: the first
  /// that is wrong in words, or "".
  [[nodiscard]] std::string first_error(std::size_t most) const {
    for (const role r : roles()) {
      if (!is_output(r)) continue;
      const std::size_t n = size_of(r), step = std::max<std::size_t>(1, n / most) | 1;
      for (std::size_t i = 0; i < n; i += step) {
        const bounded wanted = expected(r, i);
        const auto found = static_cast<double>(at(r, i));
        if (wanted.admits(found) || (r == role::dz && may_be_masked(i) && found == 0)) continue;
        return concat(name(r), " number ", i, " of ", n, " is ", std::to_string(found), ", not ",
                      std::to_string(wanted.value), " to within ", std::to_string(wanted.bound));
      }
    }
    return "";
  }

 private:
  /// The tensors of one of two batch norms.
  struct norm {
    role x, mean, invstd, gamma, beta, dgamma, dbeta, dy_factor, x_factor;
  };
  static norm norm_of(bool other) {
    using enum role;
    if (other)
      return {other_x,      other_mean,  other_invstd,    other_gamma,   other_beta,
              other_dgamma, other_dbeta, other_dy_factor, other_x_factor};
    return {x, mean, invstd, gamma, beta, dgamma, dbeta, dy_factor, x_factor};
  }
  struct place {
    std::size_t n, h, w, c;
  };

  static place place_of(std::size_t i, const extent& e) {
    const auto c = static_cast<std::size_t>(e.channels), w = static_cast<std::size_t>(e.width),
               h = static_cast<std::size_t>(e.height);
    return {i / (c * w * h), i / (c * w) % h, i / c % w, i % c};
  }
  static std::size_t offset(const place& a, const extent& e) {
    return ((a.n * static_cast<std::size_t>(e.height) + a.h) * static_cast<std::size_t>(e.width) +
            a.w) *
               static_cast<std::size_t>(e.channels) +
           a.c;
  }
  [[nodiscard]] std::size_t filter_offset(std::size_t k, int r, int s, std::size_t c) const {
    const auto window = static_cast<std::size_t>(p_.window);
    return ((k * window + static_cast<std::size_t>(r)) * window + static_cast<std::size_t>(s)) *
               static_cast<std::size_t>(p_.in.channels) +
           c;
  }

  /// s x + b, each step rounded.
  [[nodiscard]] bounded affine(role x, role scale, role bias, std::size_t i) const {
    const std::size_t c = i % static_cast<std::size_t>(p_.in.channels);
    return ((exact(x, i) * exact(scale, c)).rounded() + exact(bias, c)).rounded();
  }
  /// What the convolution reads.
  [[nodiscard]] bounded read(std::size_t i) const {
    using enum role;
    if (kind_ == fused_graph::conv_stats) return exact(x, i);
    bounded t = affine(x, scale, bias, i);
    if (kind_ == fused_graph::bn_add_relu_conv_stats) t = (t + exact(residual, i)).rounded();
    if (kind_ == fused_graph::dual_bn_relu_conv_stats)
      t = (t + affine(other_x, other_scale, other_bias, i)).rounded();
    return t.relu().rounded();
  }
  /// The pixel of x under tap (r, s) of output pixel (h, w); false in the padding.
  bool input_place(place& a, std::size_t h, std::size_t w, int r, int s) const {
    const int row = static_cast<int>(h) * p_.stride + r - p_.padding,
              column = static_cast<int>(w) * p_.stride + s - p_.padding;
    a.h = static_cast<std::size_t>(row);
    a.w = static_cast<std::size_t>(column);
    return row >= 0 && row < p_.in.height && column >= 0 && column < p_.in.width;
  }
  template <class F>
  void for_each_tap(const F& f) const {
    for (int r = 0; r < p_.window; ++r)
      for (int s = 0; s < p_.window; ++s) f(r, s);
  }

  [[nodiscard]] bounded convolution(std::size_t i) const {
    const place a = place_of(i, p_.out());
    bounded_sum total;
    for_each_tap([&](int r, int s) {
      place from{a.n, 0, 0, 0};
      if (!input_place(from, a.h, a.w, r, s)) return;
      for (; from.c < static_cast<std::size_t>(p_.in.channels); ++from.c)
        total.add(read(offset(from, p_.in)) * exact(role::w, filter_offset(a.c, r, s, from.c)));
    });
    return total.get().rounded();
  }
  /// Over the stored y, which may be summed before it is rounded.
  [[nodiscard]] bounded statistic(std::size_t k, bool square) const {
    bounded_sum total;
    const auto filters = static_cast<std::size_t>(p_.filters);
    for (std::size_t i = k; i < size_of(role::y); i += filters) {
      const bounded stored = exact(role::y, i).rounded();
      total.add(square ? stored * stored : stored);
    }
    return total.get();
  }
  [[nodiscard]] bounded weight_gradient(std::size_t i) const {
    const auto channels = static_cast<std::size_t>(p_.in.channels),
               window = static_cast<std::size_t>(p_.window);
    const std::size_t c = i % channels, k = i / (channels * window * window);
    const int s = static_cast<int>(i / channels % window),
              r = static_cast<int>(i / (channels * window) % window);
    bounded_sum total;
    const auto filters = static_cast<std::size_t>(p_.filters);
    for (std::size_t at = k; at < size_of(role::dy); at += filters) {
      const place a = place_of(at, p_.out());
      place from{a.n, 0, 0, c};
      if (input_place(from, a.h, a.w, r, s))
        total.add(read(offset(from, p_.in)) * exact(role::dy, at));
    }
    return total.get().rounded();
  }

  /// (x - mean) invstd gamma + beta
  [[nodiscard]] bounded normalized(const norm& n, std::size_t i) const {
    const std::size_t c = i % static_cast<std::size_t>(p_.in.channels);
    const bounded centered = (exact(n.x, i) + exact(n.mean, c) * bounded{-1}).rounded();
    const bounded scaled = (centered * exact(n.invstd, c)).rounded();
    return ((scaled * exact(n.gamma, c)).rounded() + exact(n.beta, c)).rounded();
  }
  /// The ReLU's argument.
  [[nodiscard]] bounded pre_activation(std::size_t i) const {
    const bounded t = normalized(norm_of(false), i);
    if (kind_ == fused_graph::dgrad_add_relu_bn) return (t + exact(role::residual, i)).rounded();
    if (kind_ == fused_graph::dgrad_dual_relu_bn)
      return (t + normalized(norm_of(true), i)).rounded();
    return t;
  }
  /// Whether the sign of t is within its error.
  [[nodiscard]] bool may_be_masked(std::size_t i) const {
    const bounded t = pre_activation(i);
    return t.value <= t.bound;
  }
  [[nodiscard]] bounded masked_gradient(std::size_t i) const {
    const bounded t = pre_activation(i);
    if (t.value <= -t.bound) return {};
    const place a = place_of(i, p_.in);
    bounded_sum total;
    const extent out = p_.out();
    for_each_tap([&](int r, int s) {
      const int row = static_cast<int>(a.h) + p_.padding - r,
                column = static_cast<int>(a.w) + p_.padding - s;
      if (row < 0 || column < 0 || row % p_.stride != 0 || column % p_.stride != 0) return;
      if (row / p_.stride >= out.height || column / p_.stride >= out.width) return;
      place to{a.n, static_cast<std::size_t>(row / p_.stride),
               static_cast<std::size_t>(column / p_.stride), 0};
      for (; to.c < static_cast<std::size_t>(p_.filters); ++to.c)
        total.add(exact(role::dy, offset(to, out)) *
                  exact(role::w, filter_offset(to.c, r, s, a.c)));
    });
    bounded dx = total.get().rounded();
    if (adds_gradient(kind_)) dx = (dx + exact(role::added, i)).rounded();
    return dx.rounded();
  }
  /// Over the stored dz, which may be summed before it is rounded.
  [[nodiscard]] bounded parameter_gradient(const norm& n, std::size_t c, bool of_scale) const {
    using enum role;
    bounded_sum total;
    const auto channels = static_cast<std::size_t>(p_.in.channels);
    for (std::size_t i = c; i < size_of(dz); i += channels) {
      const bounded g = exact(dz, i).rounded();
      const bounded h = (exact(n.x, i) + exact(n.mean, c) * bounded{-1}) * exact(n.invstd, c);
      total.add(of_scale ? g * h : g);
    }
    return total.get();
  }
  /// dx = a dz + b' x + c' = gamma invstd (dz - dbeta / N - (x - mean) invstd dgamma / N)
  [[nodiscard]] bounded factor(const norm& n, role r, std::size_t c) const {
    const double count =
        static_cast<double>(size_of(role::dz) / static_cast<std::size_t>(p_.in.channels));
    const double a = exact(n.gamma, c).value * exact(n.invstd, c).value,
                 slope = a * exact(n.invstd, c).value * exact(n.dgamma, c).value / count,
                 from_mean = slope * exact(n.mean, c).value,
                 shift = a * exact(n.dbeta, c).value / count;
    constexpr double roundings = 8 * bounded::single;
    if (r == n.dy_factor) return {a, roundings * std::abs(a)};
    if (r == n.x_factor) return {-slope, roundings * std::abs(slope)};
    return {from_mean - shift, roundings * (std::abs(from_mean) + std::abs(shift))};
  }

  fused_graph kind_;
  convolution_problem p_;
};

}  // namespace support
