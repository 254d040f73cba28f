// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/convolution_node.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

static_assert(std::same_as<layer_fixture<convolution<3>, extent{2, 4, 5}>::node,
                           convolution_node<backend<fp64, cpu, reference>>>);

TEST_CASE("convolution: gradients are derivatives for every target of dx") {
  layer_fixture<convolution<3>, extent{2, 4, 5}> same(3);
  same.randomize();
  same.check_backward();
  layer_fixture<convolution<4, 5, 2>, extent{2, 5, 4}> strided(2);
  strided.randomize();
  strided.check_backward();
  layer_fixture<convolution<2, 1>, extent{3, 1, 2}> point(2);
  point.randomize();
  point.check_backward();
}

TEST_CASE("convolution: forward reads the packed parameters, not the masters") {
  layer_fixture<convolution<3>, extent{2, 4, 5}> fixture(2);
  fixture.randomize();
  fixture.pack_parameters();
  const auto before = fixture.forward();
  for (double& w : fixture.of(0)) w = -w;
  CHECK(fixture.forward() == before);
  fixture.pack_parameters();
  auto after = fixture.forward();
  for (double& v : after) v = -v;
  CHECK(after == before);
}
