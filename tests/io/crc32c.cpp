// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/io/crc32c.hpp>

using namespace cordee;
using namespace cordee::detail::io;
using file_bytes = std::vector<std::uint8_t>;

TEST_CASE("crc32c: the vectors of RFC 3720, B.4, and of the check value") {
  file_bytes up, down;
  for (int i = 0; i < 32; ++i) up.push_back(static_cast<std::uint8_t>(i));
  down.assign(up.rbegin(), up.rend());
  CHECK(crc32c(file_bytes(32, 0x00)) == 0x8a9136aau);
  CHECK(crc32c(file_bytes(32, 0xff)) == 0x62a8ab43u);
  CHECK(crc32c(up) == 0x46dd794eu);
  CHECK(crc32c(down) == 0x113fdb5cu);
  const std::string_view digits = "123456789";
  CHECK(crc32c(file_bytes(digits.begin(), digits.end())) == 0xe3069283u);
  CHECK(crc32c({}) == 0u);
}

TEST_CASE("crc32c: the table and the processor agree, in one piece or in two") {
  file_bytes data;
  for (unsigned i = 0; i < 100; ++i) data.push_back(static_cast<std::uint8_t>(i * i * 7 + 3));
  for (std::size_t n = 0; n <= data.size(); ++n) {
    const std::span part = std::span<const std::uint8_t>(data).first(n);
    CHECK(crc32c(part) == ~crc32c_by_table(~0u, part));
    const std::size_t half = n / 3;
    CHECK(crc32c(part) ==
          ~crc32c_remainder(crc32c_remainder(~0u, part.first(half)), part.subspan(half)));
  }
}

TEST_CASE("crc32c: a masked one is rotated and moved") {
  CHECK(masked_crc(0) == 0xa282ead8u);
  CHECK(masked_crc(0x00008000u) == 0xa282ead9u);
  CHECK(masked_crc(1) == 0xa284ead8u);
}
