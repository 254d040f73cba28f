// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <cordee/nn/linear.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

static_assert(Layer<linear<10>>);
static_assert(linear<10>::out({64, 1, 1}) == extent{10, 1, 1});

TEST_CASE("linear: a weight and a bias, with torchvision's shapes and names") {
  using table = parameter_table<linear<10>, extent{64, 1, 1}>;
  REQUIRE(table::segments.size() == 2);
  CHECK(table::segments[0].name == "fc.weight");
  CHECK(table::segments[0].kind == kind::weight);
  CHECK(table::segments[0].shape == std::array<int, 6>{10, 64});
  CHECK(table::segments[1].name == "fc.bias");
  CHECK(table::segments[1].kind == kind::bias);
  CHECK(table::segments[1].shape == std::array<int, 6>{10});
  CHECK(table::totals.parameters == 650);
  CHECK(table::totals.macs == 640);
  CHECK(table::totals.convolutions == 0);
}

TEST_CASE("linear: initially the weight has deviation 1 / sqrt(features), the bias is zero") {
  const auto initializer_of = parameter_table<linear<10>, extent{64, 1, 1}>::initializers;
  CHECK(initializer_of[0].mean == 0);
  CHECK(initializer_of[0].variance == 1.0 / 64);
  CHECK(initializer_of[1].mean == 0);
  CHECK(initializer_of[1].variance == 0);
}

TEST_CASE("linear: y = W x + b of the packed parameters") {
  layer_fixture<linear<3>, extent{4, 1, 1}> fixture(5);
  fixture.randomize();
  fixture.pack_parameters();
  const auto check = [&] {
    const auto y = fixture.forward();
    for (std::size_t n = 0; n < 5; ++n)
      for (std::size_t k = 0; k < 3; ++k) {
        double sum = fixture.of(1)[k];
        for (std::size_t c = 0; c < 4; ++c) sum += fixture.of(0)[k * 4 + c] * fixture.x[n * 4 + c];
        CHECK(std::abs(y[n * 3 + k] - sum) <= 1e-14);  // 5 terms of at most 10, rounded
      }
    return y;
  };
  const auto y = check();
  const double bias = fixture.of(1)[0];
  fixture.of(1)[0] += 1;
  CHECK(fixture.forward() == y);  // not packed yet
  fixture.pack_parameters();
  CHECK(std::abs(fixture.forward()[0] - (y[0] + 1)) <= 1e-14);
  fixture.of(1)[0] = bias;
}

TEST_CASE("linear: gradients are derivatives for every target of dx") {
  layer_fixture<linear<3>, extent{4, 1, 1}> few(5);
  few.randomize();
  few.check_backward();
  layer_fixture<linear<7>, extent{2, 1, 1}> many(2);
  many.randomize();
  many.check_backward();
}
