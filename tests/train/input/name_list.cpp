// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/input/name_list.hpp>

using cordee::detail::train::name_list;
using cordee::detail::train::to_vector;

TEST_CASE("name_list: names come back in their order, empty ones among them") {
  using names = std::vector<std::string>;
  for (const names& some : {names{}, names{""}, names{"cat"}, names{"", "a cat\n", "", "dog"}}) {
    name_list list;
    for (const std::string& name : some) list.add(name);
    CHECK(to_vector(list) == some);
    CHECK(list.size() == some.size());
    CHECK(list.empty() == some.empty());
  }
}

TEST_CASE("name_list: lists are equal where all names are") {
  CHECK(name_list{"a", "b"} == name_list{"a", "b"});
  CHECK(name_list{"a", "b"} != name_list{"ab"});
  CHECK(name_list{"ab", ""} != name_list{"ab"});
  CHECK(name_list{} != name_list{""});
}
