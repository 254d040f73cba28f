// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The trainer's weights and gradients by name: tests/train/weights.cpp.
#include <array>

#include <doctest/doctest.h>

#include <cordee/train/named_segment.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::train;

TEST_CASE("edit_distance counts insertions, deletions and replacements") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "ab") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("saturday", "sunday") == 3);
  CHECK(edit_distance("conv1.weight", "conv1.weight") == 0);
}

TEST_CASE("named_segment finds the name, or throws with the nearest one") {
  constexpr std::array table{segment{"conv1.weight", kind::weight, 0, 4},
                             segment{"layer1.0.conv1.weight", kind::weight, 64, 8},
                             segment{"fc.bias", kind::bias, 128, 2}};
  CHECK(named_segment(table, "layer1.0.conv1.weight").offset == 64);
  CHECK(named_segment(table, "fc.bias").size == 2);
  const auto message = [&](const char* name) {
    return support::error_message([&] { (void)named_segment(table, name); });
  };
  CHECK(message("fc.bais") == "no segment is named \"fc.bais\"; the nearest name is \"fc.bias\"");
  CHECK(support::contains(message("layer1.0.conv1.weights"), "nearest name is \"layer1.0.conv1"));
  CHECK(support::error_message([] { (void)named_segment({}, "fc.bias"); }) ==
        "no segment is named \"fc.bias\"");
}
