// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/packed_bits.hpp>

using namespace cordee::detail::infer;

TEST_CASE("packed_bits: two weights of 4 bits or four of 2 bits a byte, the first one lowest") {
  const std::vector<std::int8_t> four{1, -1, 7, -7, 3}, two{1, 0, -1, 1, -1};
  CHECK(pack_bits(four, 4) == std::vector<std::uint8_t>{0xf1, 0x97, 0x03});
  CHECK(pack_bits(two, 2) == std::vector<std::uint8_t>{0b01'11'00'01, 0b11});
  CHECK(unpack_bits(pack_bits(four, 4), 5, 4) == four);
  CHECK(unpack_bits(pack_bits(two, 2), 5, 2) == two);
}

TEST_CASE("packed_bits: every byte is read as its weights, whatever their number") {
  for (const int bits : {2, 4})
    for (int byte = 0; byte < 256; ++byte) {
      const auto each = static_cast<std::size_t>(8 / bits);
      const std::vector<std::uint8_t> bytes{static_cast<std::uint8_t>(byte)};
      const auto weights = unpack_bits(bytes, each, bits);
      REQUIRE(weights);
      CHECK(pack_bits(*weights, bits) == bytes);
      for (const int w : *weights) CHECK((w >= -(1 << (bits - 1)) && w < 1 << (bits - 1)));
      for (std::size_t n = 1; n < each; ++n) {
        const bool zeros = byte >> (bits * static_cast<int>(n)) == 0;
        CHECK(unpack_bits(bytes, n, bits).has_value() == zeros);
      }
    }
  CHECK(pack_bits({}, 4).empty());
  CHECK(packed_bits_size(9, 2) == 3);
}
