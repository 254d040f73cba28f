// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.hpp>

#if defined(_GLIBCXX_SSTREAM) || defined(_LIBCPP_SSTREAM)
#define STREAMS_CAME_ALONG true
#else
#define STREAMS_CAME_ALONG false
#endif

#include <doctest/doctest.h>

using namespace cordee;

TEST_CASE("clock: it does not go back, and nothing of the library brings streams along") {
  const auto earlier = detail::steady_clock::now();
  CHECK(detail::steady_clock::now() >= earlier);
  CHECK_FALSE(STREAMS_CAME_ALONG);
}
