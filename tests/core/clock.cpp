// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.hpp>

#if defined(_GLIBCXX_SSTREAM) || defined(_LIBCPP_SSTREAM)
#define SSTREAM_INCLUDED true
#else
#define SSTREAM_INCLUDED false
#endif
#if defined(_GLIBCXX_FUNCTIONAL)
#define FUNCTIONAL_INCLUDED true
#else
#define FUNCTIONAL_INCLUDED false
#endif
#if defined(_GLIBCXX_MEMORY)
#define MEMORY_INCLUDED true
#else
#define MEMORY_INCLUDED false
#endif

#include <doctest/doctest.h>

using namespace cordee;

TEST_CASE("clock: steady_clock is declared, and no header of the library includes <sstream>") {
  const auto earlier = std::chrono::steady_clock::now();
  CHECK(std::chrono::steady_clock::now() >= earlier);
  CHECK_FALSE(SSTREAM_INCLUDED);
  CHECK_FALSE(FUNCTIONAL_INCLUDED);
  CHECK_FALSE(MEMORY_INCLUDED);
}
