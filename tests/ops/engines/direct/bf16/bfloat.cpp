// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// bf16 by products in pairs passes the laws of engines at the shapes of
// networks. Without the instruction both products are made in fp32, as the instruction defines
// them.
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/support/engine_laws.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

namespace {
using in_pairs = direct_with<register_bytes, false, true>;
}

ENGINE_LAWS(engine_of<in_pairs, bfloat>);

TEST_CASE(
    "bfloat: layers of few filters are in fp32, and gradients of few channels or behind a stride, "
    "but for the 3x3 window") {
  using pass = detail::ops::bfloat_correlation<8, true>;
  const auto directions = [](const convolution_problem& p) {
    return std::pair(pass::applies_to(p, false), pass::applies_to(p, true));
  };
  CHECK(directions({{16, 8, 8}, 16, 3, 1, 1}) == std::pair(true, true));
  CHECK(directions({{5, 8, 8}, 17, 1, 1, 0}) == std::pair(true, true));
  CHECK(directions({{16, 8, 8}, 16, 3, 2, 1}) == std::pair(true, true));
  CHECK(directions({{16, 8, 8}, 16, 3, 2, 0}) == std::pair(true, false));
  CHECK(directions({{16, 8, 8}, 16, 1, 2, 0}) == std::pair(true, false));
  CHECK(directions({{3, 8, 8}, 16, 3, 1, 1}) == std::pair(true, false));
  CHECK(directions({{1, 8, 8}, 16, 1, 1, 0}) == std::pair(false, false));  // no pair
  CHECK(directions({{16, 8, 8}, 4, 3, 1, 1}) == std::pair(false, false));
  CHECK(directions({{16, 9, 5}, 16, 1, 1, 1}) == std::pair(false, false));
}
