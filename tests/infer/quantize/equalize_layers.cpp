// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/equalize_layers.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp64.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;

namespace {

using two_layers = network<sequential<convolution<2, 1>, batch_norm<relu>, convolution<1, 1>,
                                      batch_norm<relu>, global_average_pool, linear<2>>,
                           fp64, cpu, reference, extent{1, 2, 2}, 2>;

std::span<double> at(std::vector<double>& plane, std::string_view name) {
  for (const segment& s : two_layers::segments())
    if (s.name == name) return std::span(plane).subspan(s.offset, s.size);
  FAIL("no segment ", name);
  return {};
}

}  // namespace

TEST_CASE("equalize_layers: in closed form, and degenerate channels stay") {
  const two_layers net{cpu(1)};
  std::vector<double> plane(two_layers::plane_size(), 1.0);
  const double epsilon = detail::ops::batch_norm_problem::epsilon;
  at(plane, "bn1.running_var")[0] = 4 - epsilon;
  at(plane, "bn1.weight")[0] = -6;
  at(plane, "bn1.bias")[0] = 5;
  at(plane, "conv1.weight")[0] = 3;   // r1 = 3 6 / 2 = 9
  at(plane, "conv2.weight")[0] = -4;  // r2 = 4: s = 3 / 2
  at(plane, "conv1.weight")[1] = 0;   // r1 = 0
  at(plane, "conv2.weight")[1] = 7;
  CHECK(equalize_layers(net, {plane.data(), plane.size()}) == std::vector<std::string>{"conv2"});
  CHECK(at(plane, "bn1.weight")[0] == doctest::Approx(-4).epsilon(1e-15));
  CHECK(at(plane, "bn1.bias")[0] == doctest::Approx(10.0 / 3).epsilon(1e-15));
  CHECK(at(plane, "conv2.weight")[0] == doctest::Approx(-6).epsilon(1e-15));
  CHECK(at(plane, "bn1.weight")[1] == 1);
  CHECK(at(plane, "conv2.weight")[1] == 7);
  CHECK(at(plane, "conv1.weight")[0] == 3);
}

TEST_CASE("equalize_layers: a channel with a number that is not finite stays, wherever it is") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  using wide = network<sequential<convolution<2, 1>, batch_norm<relu>, convolution<3, 1>,
                                  batch_norm<relu>, global_average_pool, linear<2>>,
                       fp64, cpu, reference, extent{3, 2, 2}, 2>;
  const wide net{cpu(1)};
  const auto offset = [](std::string_view name) {
    for (const segment& s : wide::segments())
      if (s.name == name) return s.offset;
    FAIL("no segment ", name);
    return std::size_t{0};
  };
  // Channel 0 has three weights in conv1, and one in each of conv2's three filters.
  const std::size_t first = offset("conv1.weight"), second = offset("conv2.weight"),
                    gamma = offset("bn1.weight"), variance = offset("bn1.running_var");
  for (const double bad : {nan, infinity, -infinity})
    for (const std::size_t at :
         {first, first + 1, first + 2, second, second + 2, second + 4, gamma, variance}) {
      if (at == variance && bad == -infinity) continue;
      std::vector<double> plane(wide::plane_size(), 1.0);
      std::fill_n(plane.begin() + static_cast<std::ptrdiff_t>(first), 6, 3.0);
      plane[at] = bad;
      std::vector<double> after = plane;
      equalize_layers(net, {after.data(), after.size()});
      CHECK(after[gamma + 1] == doctest::Approx(1 / std::sqrt(3.0)).epsilon(1e-4));
      for (const std::size_t same : {gamma, offset("bn1.bias"), second, second + 2, second + 4})
        if (same != at) CHECK(after[same] == plane[same]);
    }
}

TEST_CASE("equalize_layers: residual networks keep their outputs; shortcuts are not equalized") {
  constexpr resnet_options options{
      .image = {1, 16, 16}, .classes = 3, .shortcut = shortcut::b, .zero_gamma = false};
  network_fixture<resnet<8, fp64, cpu, options, reference>> f(4);
  f.forward(f.samples(0, 4, 4));  // statistics
  f.forward(f.samples(0, 4, 4), phase::evaluate);
  const std::vector<double> before(f.net.logits().data, f.net.logits().data + f.net.logits().size);
  const std::vector<double> weights(f.weights().data, f.weights().data + f.weights().size);
  CHECK(equalize_layers(f.net, f.weights()) ==
        std::vector<std::string>{"layer1.0.conv2", "layer2.0.conv2", "layer3.0.conv2"});
  std::size_t changed = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) changed += weights[i] != f.weights()[i] ? 1 : 0;
  CHECK(changed > 0);
  f.forward(f.samples(0, 4, 4), phase::evaluate);
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(f.net.logits()[i] == doctest::Approx(before[i]).epsilon(1e-12));
}

TEST_CASE("equalize_layers: what a block's first convolution and its projection read stays") {
  using body = sequential<convolution<4>, batch_norm<relu>, convolution<4>>;
  using two_readers = network<sequential<convolution<4>, batch_norm<relu>,
                                         residual<body, batch_norm<identity>, projection<4, 1>>,
                                         global_average_pool, linear<2>>,
                              fp64, cpu, reference, extent{1, 4, 4}, 2>;
  network_fixture<two_readers> f(4);
  f.forward(f.samples(0, 4, 4));  // statistics
  f.forward(f.samples(0, 4, 4), phase::evaluate);
  const std::vector<double> before(f.net.logits().data, f.net.logits().data + f.net.logits().size);
  CHECK(equalize_layers(f.net, f.weights()) == std::vector<std::string>{"0.conv2"});
  f.forward(f.samples(0, 4, 4), phase::evaluate);
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(f.net.logits()[i] == doctest::Approx(before[i]).epsilon(1e-12));
}
