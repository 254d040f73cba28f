// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/parameter_list.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("parameter_list: trainable tensors in order, statistics behind them, offsets aligned") {
  parameter_list list;
  list.add("conv.weight", {3, 2, 5, 5})
      .add("bn.running_mean", {3}, kind::statistic)
      .add("bn.weight", {3}, kind::scale)
      .add("temperature", {}, kind::bias)
      .add("conv3d", {2, 3, 4, 5, 6});
  const auto table = list.segments();
  REQUIRE(table.size() == 5);
  const char* names[]{"conv.weight", "bn.weight", "temperature", "conv3d", "bn.running_mean"};
  const std::size_t sizes[]{150, 3, 1, 720, 3};
  std::size_t offset = 0;
  for (std::size_t k = 0; k < 5; ++k) {
    CAPTURE(k);
    CHECK(table[k].name == names[k]);
    CHECK(table[k].size == sizes[k]);
    CHECK(table[k].offset == offset);
    CHECK(list.index(names[k]) == k);
    offset += detail::core::align_up(table[k].size);
  }
  CHECK(list.plane_size() == offset);
  CHECK(table[3].shape == tensor_shape{2, 3, 4, 5, 6});
  CHECK(detail::core::count_trainable(table) == 4);
}

TEST_CASE("parameter_list: copies and moved lists keep their names") {
  std::vector<parameter_list> lists(1);
  lists[0].add("w", {2}).add(std::string(100, 'x'), {3});
  parameter_list copy = lists[0];
  lists.resize(50);
  const parameter_list moved = std::move(lists[0]);
  lists.clear();
  for (const parameter_list* list : {&std::as_const(copy), &moved}) {
    CHECK(list->segments()[0].name == "w");
    CHECK(list->segments()[1].name == std::string(100, 'x'));
  }
  copy.add("b", {4});
  CHECK(copy.segments().size() == 3);
  CHECK(moved.segments().size() == 2);
}

TEST_CASE("parameter_list: what is no tensor is refused by name") {
  parameter_list list;
  list.add("w", {2, 3});
  const auto refusal = [&](const auto& f) { return error_message(f); };
  CHECK(refusal([&] { list.add("w", {4}); }) == "parameter_list: two tensors are named \"w\"");
  CHECK(refusal([&] { list.add("", {4}); }).find("a tensor needs a name") != std::string::npos);
  CHECK(refusal([&] {
          list.add("v", {4, 0});
        }) ==
        "parameter_list: side 1 of \"v\" is 0: expected a number from 1 on, and a tensor that fits "
        "memory");
  CHECK(refusal([&] { list.add("v", {-1}); }).find("side 0 of \"v\" is -1") != std::string::npos);
  constexpr std::int64_t large = 2'000'000'000;
  CHECK(refusal([&] { list.add("v", {large, large, large}); }).find("side 1") != std::string::npos);
  CHECK(refusal([&] {
          list.add("v", {1, 1, 1, 1, 1, 1, 1});
        }) == "parameter_list: \"v\" has 7 sides: at most 6 are supported");
  CHECK(refusal([&] { (void)list.index("u"); }) ==
        "parameter_list: no tensor is named \"u\"; there are w");
  CHECK(list.segments().size() == 1);
}
