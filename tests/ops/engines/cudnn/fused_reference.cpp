// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the values of fused graphs are compared with on a GPU (fused_graphs.cu): it admits the
// numbers of the library's own passes on the CPU, rounded to 16 bits, and no others.
#include "tests/support/fused_reference.hpp"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/engine.hpp>

#include "benchmarks/fused_shapes.hpp"
#include "tests/support/batch_norm_fixture.hpp"
#include "tests/support/device_vectors.hpp"

using namespace cordee;
using detail::ops::fused_graph;
using support::fused_reference;
using role = fused_reference::role;

namespace {

using doubles = std::vector<double>;
constexpr int samples = 2;

doubles widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }
/// From NHWC to NCHW, and back as the graph stores it.
doubles nchw(const std::vector<float>& x, const extent& e) {
  return support::from_blocked(widened(x), e, e.channels);
}
std::vector<float> stored(const doubles& x, const extent& e) {
  std::vector<float> out;
  for (const double v : support::to_blocked(x, e, e.channels))
    out.push_back(static_cast<float>(support::to_double(support::to_number<half>(v))));
  return out;
}
/// From (K, R, S, C) to (K, C, R, S).
doubles kcrs(const std::vector<float>& w, const convolution_problem& p) {
  doubles out(w.size());
  const auto channels = static_cast<std::size_t>(p.in.channels),
             taps = static_cast<std::size_t>(p.window * p.window);
  for (std::size_t i = 0; i < w.size(); ++i)
    out[(i / (channels * taps) * channels + i % channels) * taps + i / channels % taps] =
        static_cast<double>(w[i]);
  return out;
}
std::vector<float> krsc(const doubles& w, const convolution_problem& p) {
  std::vector<float> out(w.size());
  const auto channels = static_cast<std::size_t>(p.in.channels),
             taps = static_cast<std::size_t>(p.window * p.window);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(support::to_double(support::to_number<half>(
        w[(i / (channels * taps) * channels + i % channels) * taps + i / channels % taps])));
  return out;
}

/// relu(s x + b + ...), as the convolution reads it.
doubles prologue(fused_reference& ref, fused_graph kind, const extent& e) {
  doubles out = nchw(ref.tensor(role::x), e);
  if (kind == fused_graph::conv_stats) return out;
  const auto channel = [&](std::size_t i) {
    return i / e.pixels() % static_cast<std::size_t>(e.channels);
  };
  const auto add_affine = [&](role x, role scale, role bias, bool replace) {
    const doubles from = nchw(ref.tensor(x), e);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = (replace ? 0 : out[i]) +
               static_cast<double>(ref.tensor(scale)[channel(i)]) * from[i] +
               static_cast<double>(ref.tensor(bias)[channel(i)]);
  };
  add_affine(role::x, role::scale, role::bias, true);
  if (kind == fused_graph::dual_bn_relu_conv_stats)
    add_affine(role::other_x, role::other_scale, role::other_bias, false);
  if (kind == fused_graph::bn_add_relu_conv_stats) {
    const doubles residual = nchw(ref.tensor(role::residual), e);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += residual[i];
  }
  for (double& v : out) v = std::max(v, 0.0);
  return out;
}

void compute_forward(fused_reference& ref, fused_graph kind, const convolution_problem& p) {
  const doubles a = prologue(ref, kind, p.in), w = kcrs(ref.tensor(role::w), p);
  if (detail::ops::adds_residual(kind)) ref.tensor(role::z) = stored(a, p.in);
  doubles y(samples * p.out().size());
  reference::fprop<double>(p, samples, a.data(), w.data(), y.data(), cpu::stream{});
  ref.tensor(role::y) = stored(y, p.out());
  const auto filters = static_cast<std::size_t>(p.filters);
  doubles sums(filters), squares(filters);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t k = i / p.out().pixels() % filters;
    sums[k] += y[i];
    squares[k] += y[i] * y[i];
  }
  ref.tensor(role::sum).assign(sums.begin(), sums.end());
  ref.tensor(role::squares).assign(squares.begin(), squares.end());
}
void compute_weight_gradient(fused_reference& ref, const convolution_problem& p) {
  const doubles a = prologue(ref, fused_graph::bn_relu_wgrad, p.in),
                dy = nchw(ref.tensor(role::dy), p.out());
  doubles dw(p.weights());
  double* const no_workspace = nullptr;
  reference::wgrad<double>(p, samples, a.data(), dy.data(), dw.data(), write_mode::overwrite,
                           no_workspace, cpu::stream{});
  ref.tensor(role::dw) = krsc(dw, p);
}

using plain_norm = support::batch_norm_fixture<double, 1, detail::ops::epilogue::store>;

/// A batch norm of the CPU, which gives the graph its statistics.
struct norm_of_graph {
  role x, mean, invstd, gamma, beta, dgamma, dbeta, dy_factor, x_factor, constant;

  [[nodiscard]] plain_norm forward(fused_reference& ref, const convolution_problem& p) const {
    plain_norm bn({p.in, 0}, samples);
    bn.x = nchw(ref.tensor(x), p.in);
    bn.gamma = widened(ref.tensor(gamma));
    bn.beta = widened(ref.tensor(beta));
    bn.forward();
    const auto channels = static_cast<std::size_t>(p.in.channels);
    const detail::ops::batch_norm_coefficients<double> row(bn.saved.data(), channels, 0);
    ref.tensor(mean).assign(row.mean, row.mean + channels);
    ref.tensor(invstd).assign(row.inv_std, row.inv_std + channels);
    return bn;
  }
  /// Its gradients, and that the three factors give its dx as well.
  void backward(fused_reference& ref, plain_norm& bn, const convolution_problem& p) const {
    doubles dz = nchw(ref.tensor(role::dz), p.in);
    const doubles kept = dz, wanted = bn.backward(dz);
    ref.tensor(dgamma).assign(bn.dgamma.begin(), bn.dgamma.end());
    ref.tensor(dbeta).assign(bn.dbeta.begin(), bn.dbeta.end());
    const auto channels = static_cast<std::size_t>(p.in.channels);
    for (const role r : {dy_factor, x_factor, constant})
      for (std::size_t c = 0; c < channels; ++c)
        ref.tensor(r)[c] = static_cast<float>(ref.expected(r, c).value);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::size_t c = i / p.in.pixels() % channels;
      const auto factor = [&](role r) { return static_cast<double>(ref.tensor(r)[c]); };
      const double a = factor(dy_factor) * kept[i], b = factor(x_factor) * bn.x[i],
                   last = factor(constant);
      // Inputs and factors in float: each term has a few roundings of 2^-24.
      CHECK(std::abs(a + b + last - wanted[i]) <=
            8 * 0x1p-24 * (std::abs(a) + std::abs(b) + std::abs(last) + 1));
    }
  }
};

void compute_input_gradient(fused_reference& ref, fused_graph kind, const convolution_problem& p) {
  using enum role;
  constexpr norm_of_graph own{x,      mean,  invstd,    gamma,    beta,
                              dgamma, dbeta, dy_factor, x_factor, constant},
      second{other_x,      other_mean,  other_invstd,    other_gamma,    other_beta,
             other_dgamma, other_dbeta, other_dy_factor, other_x_factor, other_constant};
  const bool dual = kind == fused_graph::dgrad_dual_relu_bn;
  plain_norm bn = own.forward(ref, p), other = dual ? second.forward(ref, p) : bn;
  doubles t = bn.y, dx(samples * p.in.size());
  const doubles from = nchw(ref.tensor(dy), p.out()), filters = kcrs(ref.tensor(w), p);
  reference::dgrad<double>(p, samples, from.data(), filters.data(), dx.data(),
                           write_mode::overwrite, cpu::stream{});
  if (detail::ops::adds_residual(kind)) {
    const doubles shortcut = dual ? other.y : nchw(ref.tensor(residual), p.in);
    for (std::size_t i = 0; i < dx.size(); ++i) t[i] += shortcut[i];
  }
  if (detail::ops::adds_gradient(kind)) {
    const doubles gradient = nchw(ref.tensor(added), p.in);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += gradient[i];
  }
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = t[i] > 0 ? dx[i] : 0;
  ref.tensor(dz) = stored(dx, p.in);
  own.backward(ref, bn, p);
  if (dual) second.backward(ref, other, p);
}

void compute(fused_reference& ref, fused_graph kind, const convolution_problem& p) {
  if (kind == fused_graph::bn_relu_wgrad)
    compute_weight_gradient(ref, p);
  else if (detail::ops::is_input_gradient(kind))
    compute_input_gradient(ref, kind, p);
  else
    compute_forward(ref, kind, p);
}

constexpr convolution_problem problems[] = {
    {{8, 5, 6}, 16, 3, 1, 1}, {{16, 5, 6}, 8, 1, 1, 0}, {{8, 7, 6}, 16, 3, 2, 1}};

}  // namespace

TEST_CASE("fused_reference: the numbers of the plain passes are admitted") {
  for (const fused_graph kind : detail::ops::fused_graphs)
    for (const convolution_problem& p : problems) {
      CAPTURE(describe(kind));
      CAPTURE(describe(p.in));
      fused_reference ref(kind, p, samples);
      compute(ref, kind, p);
      CHECK(ref.first_error(1 << 20) == "");
    }
}

TEST_CASE("fused_reference: a number that is off by a twentieth is an error that names it") {
  for (const fused_graph kind : detail::ops::fused_graphs)
    for (const convolution_problem& p : problems) {
      fused_reference right(kind, p, samples);
      compute(right, kind, p);
      for (const role r : right.roles()) {
        if (!right.is_output(r)) continue;
        fused_reference wrong = right;
        float& x = wrong.tensor(r)[0];
        x += 0.05f * std::max(1.0f, std::abs(x));
        CAPTURE(describe(kind));
        CHECK(wrong.first_error(1 << 20) != "");
        CHECK(wrong.first_error(1) != "");  // a sample begins with the first
      }
    }
}

TEST_CASE("fused_reference: outputs that were not written, NaN, or another graph's are errors") {
  const convolution_problem& p = problems[0];
  for (const fused_graph kind : detail::ops::fused_graphs)
    CHECK(fused_reference(kind, p, samples).first_error(100) != "");
  fused_reference plain(fused_graph::conv_stats, p, samples),
      fused(fused_graph::bn_relu_conv_stats, p, samples);
  compute(plain, fused_graph::conv_stats, p);
  compute(fused, fused_graph::bn_relu_conv_stats, p);
  for (const role r : {role::y, role::sum, role::squares}) fused.tensor(r) = plain.tensor(r);
  CHECK(fused.first_error(100) != "");
  plain.tensor(role::y)[0] = NAN;
  CHECK(plain.first_error(100) != "");
}
