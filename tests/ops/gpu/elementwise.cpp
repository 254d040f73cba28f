// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/ops/gpu/elementwise_laws.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"

using namespace cordee;
using namespace support;

TEST_CASE_TEMPLATE("elementwise on a GPU, emulated: every operation equals the CPU's, rounded once",
                   N, EMULATED_NUMBERS) {
  for (const std::uint64_t seed : {1u, 2u}) check_elementwise<N>(emulated(seed));
}

TEST_CASE_TEMPLATE("elementwise on a GPU, emulated: NaN stays NaN", N, half, float) {
  std::vector<N> x(3, nearest<N>(std::numeric_limits<double>::quiet_NaN())), y(3);
  relu_forward(3, x.data(), y.data(), emulated::stream{});
  for (const N one : y) CHECK(std::isnan(to_double(one)));
}

TEST_CASE(
    "elementwise on a GPU, emulated: zero samples write nothing, five channels are a usage error") {
  const auto read = [](int channels) {
    normalize_bytes<half, 8>({channels, 4, 4}, 0, nullptr, {}, static_cast<half*>(nullptr),
                             emulated::stream{});
  };
  CHECK_NOTHROW(read(3));
  CHECK_THROWS_AS(read(5), usage_error);
}
