// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/direct/int8/byte_winograd.hpp>

#include "tests/support/byte_engines.hpp"
#include "tests/support/byte_parts.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

// The engine of AVX2 alone, on any build whose registers are wide enough.
using narrow_tiles = direct_with < register_bytes<32 ? register_bytes : 32, false>;

}  // namespace

TEST_CASE("byte_winograd: the sums of the definition, of odd and even rows and columns") {
  for (const int width : {2, 3, 4, 7, 8, 13})
    for (const int height : {2, 3, 5, 8})
      check_bytes<narrow_tiles>({{16, height, width}, 16, 3, 1, 1}, 2, 100);
  for (const int padding : {0, 1, 2}) {
    check_bytes<narrow_tiles>({{16, 6, 7}, 16, 3, 1, padding}, 1, 0);
    check_bytes<narrow_tiles>({{19, 7, 6}, 21, 3, 1, padding}, 1, 255);  // blocks that are not full
  }
  check_bytes<narrow_tiles>({{40, 9, 11}, 27, 3, 1, 1}, 3, 7);
  check_bytes<narrow_tiles>({{24, 31, 30}, 16, 3, 1, 1}, 1, 100);  // several chunks of rows
  check_bytes<narrow_tiles>({{136, 3, 5}, 16, 3, 1, 1}, 5, 100);   // several chunks of samples
}

TEST_CASE("byte_winograd: bytes of 255 and weights of the largest magnitudes") {
  for (const int channels : {16, 64, 136})
    for (const int zero_point : {0, 255})
      check_extreme_bytes<narrow_tiles>({{channels, 5, 6}, 17, 3, 1, 1}, zero_point);
  // The most channels: four times the sum has 31 bits.
  check_extreme_bytes<narrow_tiles>({{1024, 3, 3}, 16, 3, 1, 1}, 0);
  check_extreme_bytes<narrow_tiles>({{1024, 3, 3}, 16, 3, 1, 1}, 255);
}

TEST_CASE("byte_winograd: parts of rows and filters compute each sum once") {
  if constexpr (has_byte_pairs<8>)
    for (const std::size_t parts : {2u, 3u, 5u, 8u}) {
      using kernel = byte_winograd<8>;
      CHECK(parts_of_bytes<8, kernel>({{16, 9, 7}, 40, 3, 1, 1}, 2, parts) == "");
      CHECK(parts_of_bytes<8, kernel>({{16, 2, 30}, 16, 3, 1, 1}, 1, parts) == "");
      CHECK(parts_of_bytes<8, kernel>({{16, 33, 32}, 16, 3, 1, 1}, 1, parts) == "");
    }
}

TEST_CASE("byte_winograd: windows and images for which tiles do not pay off") {
  CHECK(byte_winograd<8>::computes({{16, 8, 8}, 16, 3, 1, 1}));
  CHECK(byte_winograd<8>::computes({{1024, 8, 8}, 16, 3, 1, 1}));
  CHECK(!byte_winograd<8>::computes({{1032, 8, 8}, 16, 3, 1, 1}));  // sums could wrap
  CHECK(!byte_winograd<8>::computes({{16, 8, 8}, 16, 3, 2, 1}));
  CHECK(!byte_winograd<8>::computes({{16, 8, 8}, 16, 5, 1, 2}));
  CHECK(!byte_winograd<8>::computes({{3, 8, 8}, 16, 3, 1, 1}));
  CHECK(!byte_winograd<8>::computes({{16, 1, 8}, 16, 3, 1, 1}));
}
