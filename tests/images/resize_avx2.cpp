// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the resizer, against torchvision: tests/images/resize.cpp.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/images/resize.hpp>

#include "tests/support/noise.hpp"
#include "tests/support/skip.hpp"

#if defined(__AVX2__)

using namespace cordee;
using namespace cordee::detail::images;
using support::noise;

TEST_CASE("avx2_passes compute the bytes of portable_passes") {
  basic_resizer<portable_passes> portable;
  basic_resizer<avx2_passes> avx2;
  for (const int from : {1, 2, 3, 4, 5, 7, 12, 33})
    for (const int to : {1, 2, 3, 5, 8, 9, 31}) {
      // Beyond eight taps the sums of floats are rounded.
      if (from > 4 * to) continue;
      CAPTURE(from);
      CAPTURE(to);
      const image_size source{from, from + 1}, size{to, to + 1};
      std::vector<std::uint8_t> in = noise(source.width, source.height);
      in.resize(in.size() + avx2.slack);
      std::vector<std::uint8_t> a(static_cast<std::size_t>(3 * size.width * size.height)), b(a);
      portable.prepare(source, size, {0, 0, size.width, size.height});
      avx2.prepare(source, size, {0, 0, size.width, size.height});
      portable.resize(in, a);
      avx2.resize(in, b);
      CHECK(a == b);
      std::fill(in.end() - static_cast<std::ptrdiff_t>(avx2.slack), in.end(), 0xff);
      avx2.resize(in, b);
      CHECK(a == b);
    }
}

#else
TEST_CASE("avx2_passes compute the bytes of portable_passes") {
  support::skip("compiled for a processor without AVX2");
}
#endif
