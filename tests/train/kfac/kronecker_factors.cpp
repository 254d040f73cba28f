// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/kfac/kronecker_factors.hpp>

using namespace cordee;
using namespace cordee::detail;
using namespace cordee::detail::train;

namespace {

constexpr extent image{2, 6, 6};
constexpr int samples = 5;
template <class Engine>
using net_type =
    resnet<8, fp64, cpu,
           resnet_options{
               .image = image, .classes = 4, .shortcut = cordee::shortcut::b, .zero_gamma = false},
           Engine>;

/// Sums of one layer, by plain loops: of g a^T, which is the gradient, and of a a^T and g g^T.
struct sums {
  std::vector<double> gradient, a, g;
  std::vector<double> tested_a, tested_g;
};

std::vector<double> triangle_of(const std::vector<std::vector<double>>& vectors, double weight) {
  const std::size_t n = vectors.front().size();
  std::vector<double> result;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (const auto& v : vectors) sum += v[i] * v[j];
      result.push_back(weight * sum);
    }
  return result;
}

constexpr double scale = 5;  // to a sample's own loss, of the mean over 5

struct observer {
  std::map<std::size_t, sums> layers;

  template <class Samples>
  void enter(std::size_t segment, const Samples& s, const std::vector<std::vector<double>>& a,
             const std::vector<std::vector<double>>& g, double per_pixel) {
    sums& to = layers[segment];
    to.g = triangle_of(g, scale * scale * per_pixel);
    if (!a.empty()) to.a = triangle_of(a, 1);
    to.tested_a.resize(to.a.size());
    to.tested_g.resize(to.g.size());
    add_factors(s, scale, to.tested_a.data(), to.tested_g.data());
  }
  void observe(std::size_t segment, const nn::linear_samples<double>& s) {
    std::vector<std::vector<double>> a, g;
    for (std::size_t n = 0; n < samples; ++n) {
      const double* const x = s.x + n * s.problem.stride;
      a.emplace_back(x, x + s.problem.features).push_back(1);
      g.emplace_back(s.dy + n * s.problem.outputs, s.dy + (n + 1) * s.problem.outputs);
    }
    enter(segment, s, a, g, 1);
    std::vector<double>& w = layers[segment].gradient;  // (outputs, features), then the biases
    for (std::size_t k = 0; k < s.problem.outputs; ++k)
      for (std::size_t c = 0; c < s.problem.features; ++c) {
        w.push_back(0);
        for (std::size_t n = 0; n < samples; ++n) w.back() += g[n][k] * a[n][c];
      }
  }
  void observe(std::size_t segment, const nn::convolution_samples<double>& s) {
    const convolution_problem& p = s.problem;
    const extent out = p.out();
    const pixel_reader<double> x{s.x, p.in, s.x_block}, dy{s.dy, out, s.dy_block};
    std::vector<std::vector<double>> a, g;
    for (int n = 0; n < samples; ++n)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j) {
          a.emplace_back();
          g.emplace_back();
          for (int c = 0; c < p.in.channels; ++c)
            for (int r = 0; r < p.window; ++r)
              for (int q = 0; q < p.window; ++q)
                a.back().push_back(
                    x(n, c, i * p.stride + r - p.padding, j * p.stride + q - p.padding));
          for (int k = 0; k < p.filters; ++k) g.back().push_back(dy(n, k, i, j));
        }
    enter(segment, s, a, g, 1.0 / static_cast<double>(out.pixels()));
    std::vector<double>& w = layers[segment].gradient;  // (K, C, R, S)
    for (std::size_t k = 0; k < g.front().size(); ++k)
      for (std::size_t c = 0; c < a.front().size(); ++c) {
        w.push_back(0);
        for (std::size_t row = 0; row < a.size(); ++row) w.back() += g[row][k] * a[row][c];
      }
  }
  void observe(std::size_t segment, const nn::batch_norm_samples& s) {
    std::vector<std::vector<double>> v(samples);
    std::vector<double> w(static_cast<std::size_t>(s.channels));  // dgamma
    for (std::size_t n = 0; n < samples; ++n) {
      for (std::size_t c = 0; c < w.size(); ++c) {
        v[n].push_back(s.gamma[n * s.pitch + c]);
        w[c] += v[n].back();
      }
      for (std::size_t c = 0; c < w.size(); ++c) v[n].push_back(s.beta[n * s.pitch + c]);
    }
    enter(segment, s, {}, v, 1);
    layers[segment].gradient = w;
  }
};

void check_near(const std::vector<double>& x, const std::vector<double>& y) {
  REQUIRE(x.size() == y.size());
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(y[i]));
    error = std::max(error, std::abs(x[i] - y[i]));
  }
  CHECK(largest > 0);
  // Sums of at most 5 x 36 terms, each within the largest diagonal element.
  CHECK(error <= 400 * 0x1p-53 * largest);
}

}  // namespace

TEST_CASE_TEMPLATE("what layers pass to an observer adds up to their gradients and factors", Engine,
                   reference, direct) {
  using net = net_type<Engine>;
  static net model;
  std::vector<double> plane(net::plane_size()), gradients(net::plane_size());
  auto packed = model.make_packed_parameters();
  const span_on<double, cpu> weights{plane.data(), plane.size()};
  model.initialize(weights, 1);
  model.pack_parameters(weights, packed, cpu::stream{});
  std::vector<std::uint8_t> pixels(samples * image.size());
  random_sequence random(1, purpose::test, 0, 0);
  for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
  const std::array<std::int32_t, samples> labels{0, 1, 2, 3, 0};
  const batch<cpu> b{.pixels = {pixels.data(), pixels.size()},
                     .labels = {labels.data(), labels.size()},
                     .count = samples,
                     .global_samples = samples};
  model.forward(packed, weights, b, phase::train, cpu::stream{});
  observer seen;
  std::vector<std::size_t> ready;
  model.backward(packed, span_on<double, cpu>{gradients.data(), gradients.size()}, write_mode::add,
                 nn::observed_ready{[&](std::size_t k) { ready.push_back(k); }, seen},
                 cpu::stream{});
  CHECK(ready.size() == core::count_trainable(net::segments()));  // each segment, once
  const auto layers = factored_layers(net::segments(), net::segments());
  CHECK(layers.size() ==
        seen.layers.size());  // 9 convolutions, as many batch norms, a linear layer
  CHECK(layers.size() > 10);
  for (const factored_layer& layer : layers) {
    const segment& s = net::segments()[layer.segment];
    INFO(s.name);
    REQUIRE(seen.layers.count(layer.segment) == 1);
    const sums& x = seen.layers[layer.segment];
    check_near(x.gradient, {gradients.begin() + static_cast<std::ptrdiff_t>(s.offset),
                            gradients.begin() + static_cast<std::ptrdiff_t>(s.end())});
    check_near(x.tested_g, x.g);
    CHECK(x.g.size() == triangle_size(layer.rows));
    CHECK(x.a.size() == layer.input_size());
    if (layer.has_inputs()) check_near(x.tested_a, x.a);
  }
}

TEST_CASE("solve_columns solves each column as cholesky does") {
  constexpr std::size_t n = 5;
  std::vector<double> k(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      k[i * n + j] = i == j ? 4 : 1 / (1.0 + static_cast<double>(i + j));
  const core::cholesky factored(k, n);
  for (const std::size_t m : {1u, 7u, 8u, 19u}) {
    std::vector<double> x(n * m);
    std::vector<core::cholesky::row> column(n);
    random_sequence random(1, purpose::test, 0, m);
    for (double& number : x) number = static_cast<double>(random.below(100)) - 50;
    const std::vector<double> b = x;
    solve_columns(factored, n, x.data(), m);
    for (std::size_t j = 0; j < m; ++j) {
      for (std::size_t i = 0; i < n; ++i) column[i].fill(b[i * m + j]);
      factored.solve(column);
      // Numbers below 50 / 3, the least eigenvalue; some ten operations each.
      for (std::size_t i = 0; i < n; ++i)
        CHECK(std::abs(x[i * m + j] - column[i][j % 8]) <= 20 * 0x1p-53 * 50);
    }
  }
}

TEST_CASE("a layer's gradient is a matrix of its one or two tensors; frozen ones are left out") {
  using net = net_type<reference>;
  const std::span<const segment> table = net::segments();
  for (const factored_layer& layer : factored_layers(table, table)) {
    const segment &first = table[layer.segment], &second = table[layer.segment + 1];
    INFO(first.name);
    std::vector<int> hits(net::plane_size());
    for (std::size_t i = 0; i < layer.rows; ++i)
      for (std::size_t j = 0; j < layer.columns; ++j) ++hits[layer.at(i, j)];
    const bool has_second = layer.rows * layer.columns > first.size;
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < hits.size(); ++k) {
      const bool inside = (k >= first.offset && k < first.end()) ||
                          (has_second && k >= second.offset && k < second.end());
      wrong += hits[k] != (inside ? 1 : 0);
    }
    CHECK(wrong == 0);
  }
  const auto all = factored_layers(table, table).size();
  CHECK(factored_layers(table, table.subspan(1)).size() == all - 1);  // without conv1
  CHECK(factored_layers(table, table.subspan(2)).size() == all - 2);  // bn1 has half of itself
}
