// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <cordee/nn/pooling.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;

static_assert(Layer<global_average_pool>);
static_assert(global_average_pool::out({64, 8, 7}) == extent{64, 1, 1});

TEST_CASE("pooling: the output is the mean over the pixels of a channel") {
  layer_fixture<global_average_pool, extent{3, 4, 5}> fixture(2);
  const auto y = fixture.forward();
  REQUIRE(y.size() == 6);
  for (std::size_t plane = 0; plane < 6; ++plane) {
    double sum = 0;
    for (std::size_t i = 0; i < 20; ++i) sum += fixture.x[plane * 20 + i];
    CHECK(std::abs(y[plane] - sum / 20) <= 20 * 4 * 0x1p-52);  // 20 terms of at most 4
  }
}

TEST_CASE("pooling: no segments, no packed parameters, one activation") {
  layer_fixture<global_average_pool, extent{3, 4, 5}> fixture(2);
  CHECK(fixture.segments().empty());
  CHECK(decltype(fixture)::table::totals.macs == 0);
  CHECK(fixture.layout.next_segment == 0);
  CHECK(fixture.layout.packed_size == 0);
  CHECK(fixture.layout.activations == 1);
}

TEST_CASE("pooling: dx is dy / pixels for every target of dx") {
  layer_fixture<global_average_pool, extent{3, 4, 5}> fixture(2);
  fixture.forward();
  const auto dx = fixture.dx_of({1, 2, 3, 4, 5, 6});
  for (std::size_t i = 0; i < dx.size(); ++i)
    CHECK(dx[i] == support::relative(static_cast<double>(i / 20 + 1) / 20, 0x1p-51));
  fixture.check_backward();
  layer_fixture<global_average_pool, extent{3, 1, 1}>(2).check_backward();
}
