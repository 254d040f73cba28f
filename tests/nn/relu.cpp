// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <cordee/nn/relu.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;

static_assert(Layer<relu> && Layer<identity>);
static_assert(relu::out({3, 4, 5}) == extent{3, 4, 5} &&
              identity::out({3, 4, 5}) == extent{3, 4, 5});

TEST_CASE("relu: negative numbers become zero, others stay, NaN stays NaN") {
  layer_fixture<relu, extent{1, 2, 3}> fixture(1);
  fixture.x = {-1, 2, 0, -0.0, 1e-300, std::numeric_limits<double>::quiet_NaN()};
  const auto y = fixture.forward();
  CHECK(std::vector(y.begin(), y.end() - 1) == std::vector<double>{0, 2, 0, 0, 1e-300});
  CHECK(std::isnan(y[5]));
  CHECK(fixture.x[0] == -1);  // the input is not changed
}

TEST_CASE("relu: dx is dy where the output is positive, 0 elsewhere") {
  layer_fixture<relu, extent{1, 2, 3}> fixture(1);
  fixture.x = {-1, 2, 0, -0.0, 3, -5};
  fixture.forward();
  CHECK(fixture.dx_of({1, 2, 3, 4, 5, 6}) == std::vector<double>{0, 2, 0, 0, 5, 0});
  layer_fixture<relu, extent{3, 4, 5}>(2).check_backward();
}

TEST_CASE("relu: no segments; one activation, identity none") {
  layer_fixture<relu, extent{3, 4, 5}> rectifier(2);
  CHECK(rectifier.segments().empty());
  CHECK(rectifier.layout.activations == 1);
  CHECK(rectifier.layout.packed_size == 0);
  layer_fixture<identity, extent{3, 4, 5}> other(2);
  CHECK(other.segments().empty());
  CHECK(other.layout.activations == 0);
  CHECK(other.layout.packed_size == 0);
}

TEST_CASE("identity: output and dx are the input and dy, the same addresses") {
  layer_fixture<identity, extent{3, 4, 5}> fixture(2);
  CHECK(fixture.forward() == fixture.x);
  CHECK(fixture.y == fixture.x.data());
  CHECK(fixture.backward(fixture.x) == fixture.dy_buffer);
  fixture.check_backward();
}
