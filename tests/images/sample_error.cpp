// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/images/sample_error.hpp>

using namespace cordee;

TEST_CASE("sample_error: is an error, with its message and place") {
  try {
    throw sample_error("rose.jpg: it is empty");
  } catch (const error& e) {
    CHECK(std::string(e.what()) == "rose.jpg: it is empty");
    CHECK(std::string(e.location().file_name()).ends_with("sample_error.cpp"));
  }
}
