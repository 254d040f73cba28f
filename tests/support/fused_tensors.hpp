// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of cuDNN's fused graphs (ops/engines/cudnn/fused_graphs.hpp) in the host's memory,
// NHWC and (K, R, S, C), with inputs drawn from a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/cudnn/fused_graphs.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/bounded.hpp"
#include "tests/support/numbers.hpp"

namespace support {

class fused_tensors {
 public:
  using fused_graph = cordee::detail::ops::fused_graph;
  using numbers = std::vector<float>;
  // clang-format off
  enum class role {
    x, scale, bias, residual, other_x, other_scale, other_bias, z, w, y, sum, squares, dy, dw, mean,
    invstd, gamma, beta, dz, dgamma, dbeta, dy_factor, x_factor, constant, other_dgamma,
    other_dbeta, other_dy_factor, other_x_factor, other_constant, added, other_mean, other_invstd,
    other_gamma, other_beta
  };
  // clang-format on

  fused_tensors(fused_graph kind, const convolution_problem& p, int samples)
      : p_(p), samples_(static_cast<std::size_t>(samples)), roles_(roles_of(kind)) {
    constexpr std::size_t period = 1'000'003;  // a prime: no two channels are alike
    for (const role r : roles_) {
      const std::size_t n = size_of(r);
      numbers& t = tensors_.emplace_back(n);
      if (is_output(r)) continue;
      const auto drawn = normal_numbers(std::min(n, period), static_cast<std::uint64_t>(r) + 1);
      for (std::size_t i = 0; i < n; ++i) t[i] = i < period ? input(r, drawn[i]) : t[i - period];
    }
  }

  /// The tensors in the order of cudnn_fused_graph::tensors().
  [[nodiscard]] std::size_t size() const { return roles_.size(); }
  [[nodiscard]] bool is_float(std::size_t k) const { return is_float(roles_[k]); }
  [[nodiscard]] bool is_output(std::size_t k) const { return is_output(roles_[k]); }
  [[nodiscard]] std::size_t bytes(std::size_t k) const {
    return size_of(roles_[k]) * (is_float(k) ? 4 : 2);
  }
  [[nodiscard]] numbers& tensor(std::size_t k) { return tensors_[k]; }
  [[nodiscard]] numbers& tensor(role r) { return tensors_[index(r)]; }

  [[nodiscard]] const std::vector<role>& roles() const { return roles_; }
  static std::string name(role r) {
    constexpr const char* names[] = {
        "x",        "scale",  "bias",  "residual", "x'",      "scale'",  "bias'",
        "z",        "w",      "y",     "sum",      "squares", "dy",      "dw",
        "mean",     "invstd", "gamma", "beta",     "dz",      "dgamma",  "dbeta",
        "a",        "b'",     "c'",    "dgamma'",  "dbeta'",  "a of x'", "b' of x'",
        "c' of x'", "g",      "mean'", "invstd'",  "gamma'",  "beta'"};
    return names[static_cast<int>(r)];
  }
  static bool is_output(role r) {
    using enum role;
    return r == z || r == y || r == sum || r == squares || r == dw || (r >= dz && r < added);
  }
  static bool is_float(role r) {
    using enum role;
    return r == sum || r == squares || (r >= mean && r != dz && r != added);
  }
  [[nodiscard]] std::size_t size_of(role r) const {
    using enum role;
    const std::size_t channels = static_cast<std::size_t>(p_.in.channels);
    if (r == x || r == residual || r == other_x || r == added || r == z || r == dz)
      return samples_ * p_.in.size();
    if (r == y || r == dy) return samples_ * p_.out().size();
    if (r == w || r == dw) return p_.weights();
    return r == sum || r == squares ? static_cast<std::size_t>(p_.filters) : channels;
  }
  [[nodiscard]] float at(role r, std::size_t i) const { return tensors_[index(r)][i]; }
  [[nodiscard]] bounded exact(role r, std::size_t i) const {
    return {static_cast<double>(at(r, i))};
  }

 private:
  static std::vector<role> roles_of(fused_graph kind) {
    using enum role;
    switch (kind) {
      case fused_graph::conv_stats:
        return {x, w, y, sum, squares};
      case fused_graph::bn_relu_conv_stats:
        return {x, scale, bias, w, y, sum, squares};
      case fused_graph::bn_add_relu_conv_stats:
        return {x, scale, bias, residual, z, w, y, sum, squares};
      case fused_graph::dual_bn_relu_conv_stats:
        return {x, scale, bias, other_x, other_scale, other_bias, z, w, y, sum, squares};
      case fused_graph::bn_relu_wgrad:
        return {x, scale, bias, dy, dw};
      case fused_graph::dgrad_relu_bn:
        return {dy, w,      x,     mean,      invstd,   gamma,   beta,
                dz, dgamma, dbeta, dy_factor, x_factor, constant};
      case fused_graph::dgrad_add_relu_bn:
        return {dy,    w,  x,      mean,  invstd,    gamma,    beta,    residual,
                added, dz, dgamma, dbeta, dy_factor, x_factor, constant};
      case fused_graph::dgrad_add_pooled_bn:
        return {dy,    w,  x,      mean,  invstd,    gamma,    beta,
                added, dz, dgamma, dbeta, dy_factor, x_factor, constant};
      case fused_graph::dgrad_dual_relu_bn:
        return {dy,
                w,
                x,
                mean,
                invstd,
                gamma,
                beta,
                other_x,
                other_mean,
                other_invstd,
                other_gamma,
                other_beta,
                added,
                dz,
                dgamma,
                dbeta,
                dy_factor,
                x_factor,
                constant,
                other_dgamma,
                other_dbeta,
                other_dy_factor,
                other_x_factor,
                other_constant};
    }
    return {};
  }
  /// Scales are positive and near 1, as those of batch norms are.
  static float input(role r, double drawn) {
    using enum role;
    if (r == scale || r == other_scale || r == invstd || r == gamma || r == other_invstd ||
        r == other_gamma)
      drawn = 0.5 + std::abs(drawn);
    if (r == w) drawn /= 8;
    return is_float(r) ? static_cast<float>(drawn)
                       : static_cast<float>(to_double(to_number<fp16::storage>(drawn)));
  }
  [[nodiscard]] std::size_t index(role r) const {
    return static_cast<std::size_t>(std::find(roles_.begin(), roles_.end(), r) - roles_.begin());
  }

  convolution_problem p_;
  std::size_t samples_;
  std::vector<role> roles_;
  std::vector<numbers> tensors_;
};

}  // namespace support
