// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <concepts>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/file/packed_bits.hpp>

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

template <class T>
std::vector<std::uint8_t> packed(const std::vector<T>& numbers, int bits) {
  return pack_bits(std::span(numbers), bits);
}

/// Numbers of so many bits, the extremes among them: what they are packed to has bit j of number i
/// at bit i * bits + j, and unpacks to them.
template <std::integral T>
void check_width(std::size_t n, int bits) {
  random_sequence draw(n, purpose::test, static_cast<std::uint64_t>(bits), 0);
  std::vector<T> numbers(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t raw = std::uint64_t{draw.bits()} << 32 | draw.bits();
    if (i % 5 == 1) raw = 0;
    if (i % 5 == 2) raw = ~std::uint64_t{0};
    if (i % 5 == 3) raw = std::uint64_t{1} << (bits - 1);  // the least, where there is a sign
    const int unused = 64 - bits;
    numbers[i] = static_cast<T>(std::signed_integral<T>
                                    ? static_cast<std::int64_t>(raw << unused) >> unused
                                    : static_cast<std::int64_t>(raw << unused >> unused));
  }
  const auto bytes = packed(numbers, bits);
  REQUIRE(bytes.size() == packed_bits_size(n, bits));
  bool same = true;
  const auto width = static_cast<std::size_t>(bits);
  for (std::size_t at = 0; at < 8 * bytes.size(); ++at) {
    const bool is_set = (bytes[at / 8] >> at % 8 & 1) != 0;
    const std::size_t i = at / width;
    same = same && is_set == (i < n && (static_cast<std::uint64_t>(numbers[i]) >> at % width & 1));
  }
  CHECK(same);
  CHECK(unpack_bits<T>(bytes, n, bits) == numbers);
  // Each bit behind the last number is refused.
  for (std::size_t at = n * width; at < 8 * bytes.size(); ++at) {
    auto changed = bytes;
    changed[at / 8] = static_cast<std::uint8_t>(changed[at / 8] | 1 << at % 8);
    CHECK_FALSE(unpack_bits<T>(changed, n, bits));
  }
}

}  // namespace

TEST_CASE("packed_bits: two weights of 4 bits or four of 2 bits a byte, the first one lowest") {
  const std::vector<std::int8_t> four{1, -1, 7, -7, 3}, two{1, 0, -1, 1, -1};
  CHECK(packed(four, 4) == std::vector<std::uint8_t>{0xf1, 0x97, 0x03});
  CHECK(packed(two, 2) == std::vector<std::uint8_t>{0b01'11'00'01, 0b11});
  CHECK(packed(std::vector<std::int64_t>{-2, 5, 1}, 5) == std::vector<std::uint8_t>{0xbe, 0x04});
}

TEST_CASE("packed_bits: numbers of any width and any count, across bytes") {
  for (const std::size_t n : {0U, 1U, 2U, 3U, 5U, 7U, 8U, 9U, 64U}) {
    CAPTURE(n);
    for (int bits = 1; bits <= 64; ++bits) check_width<std::int64_t>(n, bits);
    for (int bits = 1; bits <= 8; ++bits) {
      check_width<std::int8_t>(n, bits);
      check_width<std::uint8_t>(n, bits);
    }
  }
}

TEST_CASE("packed_bits: numbers of no bits are zeros without bytes") {
  CHECK(packed(std::vector<std::uint8_t>{0, 0, 0}, 0).empty());
  CHECK(unpack_bits<std::uint8_t>({}, 3, 0) == std::vector<std::uint8_t>{0, 0, 0});
  CHECK(packed_bits_size(9, 0) == 0);
  CHECK(packed_bits_size(9, 2) == 3);
  CHECK(packed_bits_size(0, 64) == 0);
}

TEST_CASE("packed_bits: signed_width is the least of two's complement") {
  for (int bits = 1; bits <= 64; ++bits) {
    const std::int64_t largest = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
    CHECK(signed_width(-largest - 1) == bits);
    CHECK(signed_width(largest) == bits);
    if (bits < 64) {
      CHECK(signed_width(largest + 1) == bits + 1);
      CHECK(signed_width(-largest - 2) == bits + 1);
    }
  }
}
