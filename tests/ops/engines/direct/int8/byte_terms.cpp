// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/int8/byte_terms.hpp>

using namespace cordee::detail::ops;

TEST_CASE("byte_terms: sums begin with minus the zero point times those of the weights") {
  constexpr std::size_t filters = 3, padded = 4;
  const std::array<std::int32_t, padded> sums{5, -7, 11, 0};
  std::array<std::int8_t, 4 * padded> bytes{};
  std::memcpy(bytes.data(), sums.data(), sizeof sums);
  const std::array<float, filters> scales{2, 3, 5};
  const affine_quantizer<float> k{.scale = 0.5F, .zero_point = 100};
  filter_terms_memory memory;
  const filter_terms terms = memory.of<float>(k, filters, padded, bytes.data(), scales.data());
  for (std::size_t f = 0; f < padded; ++f) {
    CHECK(terms.initial[f] == -100 * sums[f]);
    CHECK(terms.scales[f] == (f < filters ? 0.5F * scales[f] : 0));
  }
  // Sums alone have no scales, which may be null.
  const filter_terms alone = memory.of<std::int32_t>(k, filters, padded, bytes.data(), nullptr);
  CHECK(alone.initial[1] == 700);
  CHECK(alone.scales[0] == 0);
}
