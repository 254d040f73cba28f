// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/number.hpp>

using namespace cordee;

static_assert(detail::WmmaNumber<half> && detail::WmmaNumber<bfloat> &&
              !detail::WmmaNumber<float> && !detail::WmmaNumber<double>);

TEST_CASE("wmma: channels in memory fill copies of 16 bytes") {
  for (int channels = 1; channels < 70; ++channels) {
    const int narrow = detail::wmma_filled<half>(channels),
              bytes = detail::wmma_filled<std::uint8_t>(channels);
    CHECK(narrow % 8 == 0);
    CHECK((narrow >= channels && narrow < channels + 8));
    CHECK(bytes % 16 == 0);
    CHECK((bytes >= channels && bytes < channels + 16));
  }
}
