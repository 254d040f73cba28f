// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include <cordee/images/pass_limit.hpp>

using cordee::detail::images::passes_fit;

TEST_CASE("pass_limit: passes times pixels are at most three times the limit of pixels") {
  CHECK(passes_fit({10, 10}, 3, 100));
  CHECK_FALSE(passes_fit({10, 10}, 4, 100));
  CHECK(passes_fit({10, 10}, 6, 200));
  CHECK_FALSE(passes_fit({11, 9}, 7, 230));
  CHECK(passes_fit({11, 9}, 7, 231));
  CHECK(passes_fit({65535, 65535}, 500, std::numeric_limits<std::uint64_t>::max()));
}
