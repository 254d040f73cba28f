// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/version.hpp>

TEST_CASE("version: the string equals the three numbers") {
  CHECK(cordee::version ==
        cordee::concat(CORDEE_VERSION_MAJOR, '.', CORDEE_VERSION_MINOR, '.', CORDEE_VERSION_PATCH));
}
