// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/text.hpp>
#include <cordee/core/version.hpp>

TEST_CASE("version: the text says what the numbers say") {
  CHECK(cordee::version ==
        cordee::text(CORDEE_VERSION_MAJOR, '.', CORDEE_VERSION_MINOR, '.', CORDEE_VERSION_PATCH));
}
