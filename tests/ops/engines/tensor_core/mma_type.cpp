// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/mma_type.hpp>

using namespace cordee;

static_assert(detail::ops::TensorCoreNumber<half> && detail::ops::TensorCoreNumber<bfloat> &&
              !detail::ops::TensorCoreNumber<float> && !detail::ops::TensorCoreNumber<double>);

TEST_CASE("tensor_core: channels are padded to copies of 16 bytes, and no further") {
  for (int channels = 1; channels < 70; ++channels) {
    const int narrow = detail::ops::tensor_core_channels<half>(channels),
              bytes = detail::ops::tensor_core_channels<std::uint8_t>(channels);
    CHECK(narrow % 8 == 0);
    CHECK((narrow >= channels && narrow < channels + 8));
    CHECK(bytes % 16 == 0);
    CHECK((bytes >= channels && bytes < channels + 16));
  }
}
