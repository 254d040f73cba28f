// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/number.hpp>

using namespace cordee;
using namespace cordee::detail::precision;

static_assert(Number<float> && Number<double> && Number<half> && Number<bfloat>);
static_assert(!StorageOnly<float> && StorageOnly<half> && StorageOnly<bfloat> && !Number<int>);
static_assert(std::same_as<wide<double>, double> && std::same_as<wide<half>, float>);

TEST_CASE_TEMPLATE("number: values of N survive widening and rounding", N, float, double, half,
                   bfloat) {
  for (const float x : {0.0f, -0.0f, 1.0f, -1.5f, 0x1p-14f, 240.0f, 0x1.04p3f})
    CHECK(widened(rounded<N>(x)) == x);
}

TEST_CASE("number: one third rounds to the nearest value of each type") {
  constexpr float third = 1.0f / 3;
  CHECK(widened(rounded<float>(third)) == third);
  CHECK(widened(rounded<half>(third)) == 0.333251953125f);
  CHECK(widened(rounded<bfloat>(third)) == 0.333984375f);
}
