// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm from sums that others take, beside the CPU's in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/fused_batch_norm.hpp>

#include "tests/support/batch_norm_on_device.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

constexpr int V = 24;

/// sum a and sum a b of each channel, (2, V), of activations in NHWC.
std::vector<float> sums_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sums(2 * V);
  for (std::size_t i = 0; i < a.size(); ++i) {
    sums[i % V] += a[i];
    sums[V + i % V] += a[i] * b[i];
  }
  return {sums.begin(), sums.end()};
}

template <class N>
void check_sums(int samples, write_mode mode) {
  INFO(samples, " samples");
  batch_norm_on_device<N, epilogue::relu, emulated> bn(emulated(2), {{20, 5, 7}, 0}, V, samples);
  auto& want = bn.want;
  want.forward();

  const auto x = to_doubles(bn.x.read());
  device_vector<float, emulated> sums(bn.device, bn.s, sums_of(x, x));
  const batch_statistics<float> to{
      20, bn.gamma.data(), bn.saved.data(), bn.mean.data(), bn.variance.data(), bn.beta.data()};
  moments_of_sums<N>(bn.at, samples, V, to, sums.data(), sums.data() + V, bn.s);
  bn.same_sums("running mean", bn.mean, want.mean);
  bn.same_sums("running variance", bn.variance, want.variance);
  normalized_input<N, float> in{bn.at, bn.tensors()};
  store_normalized(in, samples, V, bn.s);
  CHECK(in.is_stored);
  bn.same_activations("y", bn.y, want.y);

  // Scale and bias are rounded to N, each with an error of a half unit of its own size.
  const auto check_rounded = [&] {
    auto saved = bn.saved.read();
    const auto y = to_doubles(bn.y.read());
    const rounded_coefficients<N, float> rounded(saved.data(), V);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % V;
      const double scale = to_double(rounded.scale[c]), bias = to_double(rounded.bias[c]),
                   found = std::max(scale * x[i] + bias, 0.0),
                   bound = 1.1 * roundoff<N> *
                               (std::abs(scale * x[i]) + std::abs(bias) + std::abs(found)) +
                           200 * roundoff<float>;
      CHECK(std::abs(found - y[i]) <= bound);
    }
  };
  check_rounded();
  bn.saved = {bn.device, bn.s, [&] {  // forward's rows stay, and the others are made again
                auto rows = bn.saved.read();
                std::fill(rows.begin() + 3 * V, rows.end(), 55.0f);
                return rows;
              }()};
  in.norm = bn.tensors();
  in.is_rounded = true;
  round_coefficients(in, V, bn.s);
  CHECK(bn.saved.read()[3 * V] == 55.0f);
  in.is_rounded = false;
  round_coefficients(in, V, bn.s);
  check_rounded();

  // The convolution behind has masked dy and taken its sums.
  auto behind = bn.dy;
  want.y = bn.plain(bn.y);
  const auto dx = want.backward(behind, mode);
  auto g = to_doubles(bn.gradient.read());
  const auto y = to_doubles(bn.y.read());
  const auto rows = bn.saved.read();
  std::vector<double> h(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (y[i] <= 0) g[i] = 0;
    const auto mean = static_cast<double>(rows[i % V]),
               inverse = static_cast<double>(rows[V + i % V]);
    h[i] = (x[i] - mean) * inverse;
  }
  auto with_sums = rows;
  const auto of_g = sums_of(g, h);
  std::copy(of_g.begin(), of_g.end(), with_sums.begin() + 3 * V);
  bn.saved = {bn.device, bn.s, with_sums};
  bn.gradient = {bn.device, bn.s, to_storage<N>(g)};
  using of = norm_gradients<N, float>;
  // Of two norms in one kernel each has the bits of its own.
  device_vector<float, emulated> other_dgamma(bn.device, bn.s, bn.dgamma.read()),
      other_dbeta(bn.device, bn.s, bn.dbeta.read()), both_dgamma(bn.device, bn.s, bn.dgamma.read()),
      both_dbeta(bn.device, bn.s, bn.dbeta.read()), dgamma(bn.device, bn.s, bn.dgamma.read()),
      dbeta(bn.device, bn.s, bn.dbeta.read()), other_saved(bn.device, bn.s, [&] {
        auto others = bn.saved.read();
        for (float& one : others) one *= 0.75f;
        return others;
      }());
  auto other = bn.tensors();
  other.saved = other_saved.data();
  other.x = bn.residual.data();
  const auto masked = bn.gradient.read();
  device_vector<N, emulated> both(bn.device, bn.s, masked), both_dx(bn.device, bn.s, masked),
      other_dx(bn.device, bn.s, masked);
  batch_norm_backward_of_sums<N, V>(
      bn.at, samples, both.data(),
      of{bn.tensors(), both_dx.data(), both_dgamma.data(), both_dbeta.data()},
      of{other, both.data(), dgamma.data(), dbeta.data()}, mode, bn.s);
  batch_norm_backward_of_sums<N, V>(
      bn.at, samples, other_dx.data(),
      of{other, other_dx.data(), other_dgamma.data(), other_dbeta.data()}, mode, bn.s);
  batch_norm_backward_of_sums<N, V>(
      bn.at, samples, bn.gradient.data(),
      of{bn.tensors(), bn.gradient.data(), bn.dgamma.data(), bn.dbeta.data()}, mode, bn.s);
  CHECK(to_doubles(both_dx.read()) == to_doubles(bn.gradient.read()));
  CHECK(to_doubles(both.read()) == to_doubles(other_dx.read()));
  CHECK(both_dgamma.read() == bn.dgamma.read());
  CHECK(both_dbeta.read() == bn.dbeta.read());
  CHECK(dgamma.read() == other_dgamma.read());
  CHECK(dbeta.read() == other_dbeta.read());
  bn.same_activations("dx", bn.gradient, dx);
  bn.same_sums("dgamma", bn.dgamma, want.dgamma);
  bn.same_sums("dbeta", bn.dbeta, want.dbeta);
}

}  // namespace

TEST_CASE_TEMPLATE("fused_batch_norm: forward and backward from sums are the CPU's", N,
                   EMULATED_HALVES) {
  check_sums<N>(3, write_mode::overwrite);
  check_sums<N>(40, write_mode::add);  // several chunks, of which the first has the parameters
}

TEST_CASE("fused_batch_norm: NaN stays NaN, and a variance below zero is zero") {
  const emulated device;
  const auto s = device.make_stream();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Channel 1: sum^2 / n exceeds the sum of squares by its rounding.
  device_vector<float, emulated> sums(device, s, {nan, 3, 1, 3 * 0.999999f}),
      gamma(device, s, {1, 1}), beta(device, s, {0, 0}), saved(device, s, std::vector<float>(10)),
      mean(device, s, {1, 1}), variance(device, s, {1, 1});
  const batch_statistics<float> to{2,           gamma.data(),    saved.data(),
                                   mean.data(), variance.data(), beta.data()};
  moments_of_sums<half>({{2, 1, 1}}, 3, 2, to, sums.data(), sums.data() + 2, s);
  CHECK(std::isnan(saved.read()[0]));
  CHECK(std::isnan(mean.read()[0]));
  CHECK(saved.read()[1] == 1);
  CHECK(variance.read()[1] == doctest::Approx(0.9));
}
