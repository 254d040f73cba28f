// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is refused is in program_builder.cpp.
#include <algorithm>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/trained_numbers.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

TEST_CASE("trained_numbers: the largest |gamma| + |beta| of a batch norm") {
  using model =
      network<sequential<convolution<3, 1>, batch_norm<relu>, global_average_pool, linear<2>>, int8,
              cpu, direct, extent{1, 4, 4}, 2>;
  auto plane = support::random_plane<model>(1);
  const auto set = [&](std::string_view name, std::vector<float> values) {
    std::copy(
        values.begin(), values.end(),
        plane.begin() + static_cast<std::ptrdiff_t>(support::segment_named<model>(name).offset));
  };
  set("bn1.weight", {1, -2, 0.5F});
  set("bn1.bias", {0.25F, -0.5F, 1.75F});
  const layer_list list = list_layers(static_cast<const model*>(nullptr));
  CHECK(trained_numbers(plane).usual_output(list.layers()[0]) == 2.5);
}
