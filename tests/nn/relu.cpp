// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <cordee/nn/relu.hpp>

#include "tests/nn/lone.hpp"

using namespace cordee;

static_assert(Layer<relu> && Layer<identity>);
static_assert(relu::out({3, 4, 5}) == extent{3, 4, 5} &&
              identity::out({3, 4, 5}) == extent{3, 4, 5});

TEST_CASE("relu: what is negative becomes zero, what is not stays, what is no number stays none") {
  lone<relu, extent{1, 2, 3}> at(1);
  at.x = {-1, 2, 0, -0.0, 1e-300, std::numeric_limits<double>::quiet_NaN()};
  const auto y = at.forward();
  CHECK(std::vector(y.begin(), y.end() - 1) == std::vector<double>{0, 2, 0, 0, 1e-300});
  CHECK(std::isnan(y[5]));
  CHECK(at.x[0] == -1);  // the input is the layer's before
}

TEST_CASE("relu: the gradient passes where something came out, and nowhere else") {
  lone<relu, extent{1, 2, 3}> at(1);
  at.x = {-1, 2, 0, -0.0, 3, -5};
  at.forward();
  CHECK(at.dx_of({1, 2, 3, 4, 5, 6}) == std::vector<double>{0, 2, 0, 0, 5, 0});
  lone<relu, extent{3, 4, 5}>(2).check_backward();
}

TEST_CASE("relu: nothing to learn; one activation for it, none for doing nothing") {
  lone<relu, extent{3, 4, 5}> one(2);
  CHECK(one.segments().empty());
  CHECK(one.place.activation == 1);
  CHECK(one.place.image == 0);
  lone<identity, extent{3, 4, 5}> none(2);
  CHECK(none.segments().empty());
  CHECK(none.place.activation == 0);
  CHECK(none.place.image == 0);
}

TEST_CASE("identity: what comes is what goes, to the address, both ways") {
  lone<identity, extent{3, 4, 5}> at(2);
  CHECK(at.forward() == at.x);
  CHECK(at.y == at.x.data());
  CHECK(at.backward(at.x) == at.sent);
  at.check_backward();
}
