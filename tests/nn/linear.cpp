// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/nn/linear.hpp>

#include "tests/nn/lone.hpp"

using namespace cordee;

static_assert(Layer<linear<10>>);
static_assert(linear<10>::out({64, 1, 1}) == extent{10, 1, 1});

TEST_CASE("linear: a weight and a bias, in torchvision's shapes and names") {
  using table = parameter_table<linear<10>, extent{64, 1, 1}>;
  REQUIRE(table::segments.size() == 2);
  CHECK(table::segments[0].name == "fc.weight");
  CHECK(table::segments[0].what == kind::weight);
  CHECK(table::segments[0].shape == std::array{10, 64, 0, 0});
  CHECK(table::segments[1].name == "fc.bias");
  CHECK(table::segments[1].what == kind::bias);
  CHECK(table::segments[1].shape == std::array{10, 0, 0, 0});
  CHECK(table::totals.parameters == 650);
  CHECK(table::totals.macs == 640);
  CHECK(table::totals.convolutions == 0);
}

TEST_CASE("linear: the weight begins at deviation 1 / sqrt(features), the bias at zero") {
  const auto begins = parameter_table<linear<10>, extent{64, 1, 1}>::beginnings;
  CHECK(begins[0].mean == 0);
  CHECK(begins[0].variance == 1.0 / 64);
  CHECK(begins[1].mean == 0);
  CHECK(begins[1].variance == 0);
}

TEST_CASE("linear: y = W x + b, of what was published") {
  lone<linear<3>, extent{4, 1, 1}> at(5);
  at.randomise();
  at.publish();
  const auto check = [&] {
    const auto y = at.forward();
    for (std::size_t n = 0; n < 5; ++n)
      for (std::size_t k = 0; k < 3; ++k) {
        double sum = at.of(1)[k];
        for (std::size_t c = 0; c < 4; ++c) sum += at.of(0)[k * 4 + c] * at.x[n * 4 + c];
        CHECK(y[n * 3 + k] == doctest::Approx(sum).epsilon(1e-13));
      }
    return y;
  };
  const auto y = check();
  const double bias = at.of(1)[0];
  at.of(1)[0] += 1;
  CHECK(at.forward() == y);  // not yet published
  at.publish();
  CHECK(at.forward()[0] == doctest::Approx(y[0] + 1));
  at.of(1)[0] = bias;
}

TEST_CASE("linear: gradients are derivatives, wherever the input's goes") {
  lone<linear<3>, extent{4, 1, 1}> few(5);
  few.randomise();
  few.check_backward();
  lone<linear<7>, extent{2, 1, 1}> many(2);
  many.randomise();
  many.check_backward();
}
