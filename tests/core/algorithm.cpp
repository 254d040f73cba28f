// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.hpp>

#if defined(_GLIBCXX_ALGORITHM) || defined(_GLIBCXX_NUMERIC) || defined(_GLIBCXX_ITERATOR)
#define LARGE_HEADERS_INCLUDED true
#else
#define LARGE_HEADERS_INCLUDED false
#endif

#include <doctest/doctest.h>

TEST_CASE("algorithm: the umbrella includes neither <algorithm> nor <numeric> nor <iterator>") {
  CHECK_FALSE(LARGE_HEADERS_INCLUDED);
}
