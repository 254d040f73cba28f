// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/batch_norm_on_device.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE_TEMPLATE(
    "batch_norm on a GPU, emulated: forward, backward and evaluation equal the CPU's", N,
    EMULATED_NUMBERS) {
  check_batch_norm<N, epilogue::store>(emulated(1));
  check_batch_norm<N, epilogue::relu>(emulated(2));
  check_batch_norm<N, epilogue::add_relu>(emulated(3));
}

TEST_CASE_TEMPLATE("batch_norm on a GPU, emulated: no bit depends on the order of threads", N, half,
                   float) {
  std::vector<double> y, dx, dgamma, variance;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    batch_norm_on_device<N, epilogue::add_relu, emulated> bn(emulated(seed), {{12, 18, 17}, 2}, 8,
                                                             3);
    bn.forward();
    bn.backward(write_mode::overwrite, false);
    const auto now = [](auto& of) { return to_doubles(of.read()); };
    if (seed == 1) {
      y = now(bn.y);
      dx = now(bn.input_gradient);
      dgamma = now(bn.dgamma);
      variance = now(bn.variance);
    }
    CHECK(y == now(bn.y));
    CHECK(dx == now(bn.input_gradient));
    CHECK(dgamma == now(bn.dgamma));
    CHECK(variance == now(bn.variance));
  }
}

TEST_CASE("batch_norm on a GPU, emulated: more chunks than the merge has threads per channel") {
  batch_norm_on_device<double, epilogue::relu, emulated> bn(emulated(), {{1, 160, 151}, 0}, 1, 3);
  CHECK(detail::ops::batch_norm_tiles(bn.at, 3, 1, 1).chunks > 33);
  bn.check(write_mode::overwrite);
}

TEST_CASE("batch_norm on a GPU, emulated: in float the variance is accurate with a large mean") {
  batch_norm_on_device<float, epilogue::store, emulated> bn(emulated(), {{8, 32, 32}, 0}, 8, 4);
  for (double& x : bn.want.x) x = std::round(x * 64) / 64 + 4096;  // floats, exactly
  bn.x = bn.activations(bn.want.x);
  bn.forward();
  bn.want.forward();
  CHECK(max_error_ratio(to_doubles(bn.variance.read()), bn.want.variance, 2e-6, 0) <= 1);
}

TEST_CASE_TEMPLATE("batch_norm on a GPU, emulated: NaN stays NaN, in its channel alone", N, half,
                   float) {
  batch_norm_on_device<N, epilogue::relu, emulated> bn(emulated(), {{2, 3, 3}, 0}, 8, 2);
  bn.want.x[9] = std::numeric_limits<double>::quiet_NaN();  // the first pixel of channel 1
  bn.x = bn.activations(bn.want.x);
  bn.forward();
  const auto variance = to_doubles(bn.variance.read());
  const auto y = bn.plain(bn.y);
  CHECK(std::isnan(variance[1]));
  CHECK(std::isnan(y[9]));
  CHECK(std::isfinite(variance[0]));
  CHECK(std::isfinite(y[0]));
}

TEST_CASE("batch_norm on a GPU, emulated: shared statistics with groups are a usage error") {
  batch_norm_on_device<float, epilogue::relu, emulated> bn(emulated(), {{2, 3, 3}, 1}, 8, 2);
  const statistics_allreduce shared{[](void*, std::span<double>) {}, nullptr};
  CHECK(contains(error_message([&] { bn.forward(shared); }), "use ghost_batch = 0"));
  CHECK(contains(error_message([&] { bn.backward(write_mode::add, true, shared); }),
                 "use ghost_batch = 0"));
}
