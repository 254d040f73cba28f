// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/nn/pooling.hpp>

#include "tests/nn/lone.hpp"

using namespace cordee;

static_assert(Layer<global_average_pool>);
static_assert(global_average_pool::out({64, 8, 7}) == extent{64, 1, 1});

TEST_CASE("pooling: every channel becomes the mean of its pixels") {
  lone<global_average_pool, extent{3, 4, 5}> at(2);
  const auto y = at.forward();
  REQUIRE(y.size() == 6);
  for (std::size_t plane = 0; plane < 6; ++plane) {
    double sum = 0;
    for (std::size_t i = 0; i < 20; ++i) sum += at.x[plane * 20 + i];
    CHECK(y[plane] == doctest::Approx(sum / 20).epsilon(1e-13));
  }
}

TEST_CASE("pooling: nothing to learn, nothing to compute with, one activation") {
  lone<global_average_pool, extent{3, 4, 5}> at(2);
  CHECK(at.segments().empty());
  CHECK(decltype(at)::table::totals.macs == 0);
  CHECK(at.place.next == 0);
  CHECK(at.place.image == 0);
  CHECK(at.place.activation == 1);
}

TEST_CASE("pooling: every pixel gets its share of the gradient, wherever that goes") {
  lone<global_average_pool, extent{3, 4, 5}> at(2);
  at.forward();
  const auto dx = at.dx_of({1, 2, 3, 4, 5, 6});
  for (std::size_t i = 0; i < dx.size(); ++i)
    CHECK(dx[i] == doctest::Approx(static_cast<double>(i / 20 + 1) / 20));
  at.check_backward();
  lone<global_average_pool, extent{3, 1, 1}>(2).check_backward();
}
