// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/direct/int8/byte_correlation.hpp>

#include "tests/support/byte_engines.hpp"
#include "tests/support/byte_parts.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

// The engine of AVX2 alone, on any build whose registers are wide enough.
using narrow = direct_with < register_bytes<32 ? register_bytes : 32, false>;

}  // namespace

TEST_CASE("byte_pair_tile: any number of pixels, in rows and in panels, and of blocks of filters") {
  for (int width = 1; width <= 14; ++width)
    for (const int filters : {8, 11, 24}) {
      check_bytes<narrow>({{16, 1, width}, filters, 1, 1, 0}, 1, 100);
      check_bytes<narrow>({{24, 3, width}, filters, 1, 1, 0}, 2, 100);
      check_bytes<narrow>({{8, 3, width}, filters, 3, 1, 1}, 1, 100);
    }
  check_bytes<narrow>({{16, 23, 14}, 16, 1, 1, 0}, 1, 100);  // chunks that begin within a panel
  check_bytes<narrow>({{40, 9, 11}, 17, 1, 2, 0}, 2, 100);
  check_bytes<narrow>({{8, 9, 11}, 17, 3, 3, 2}, 2, 100);
}

TEST_CASE("byte_pair_tile: window rows of an odd number of channels end with half a pair") {
  for (const int channels : {1, 2, 3, 5, 7})
    for (const int window : {1, 3, 5, 7})
      check_bytes<narrow>({{channels, 8, 9}, 16, window, 1, window / 2}, 2, 100);
}

TEST_CASE("byte_pair_tile: bytes of 255 and weights of the largest magnitudes") {
  for (const int window : {1, 3, 7})
    for (const int channels : {1, 5, 17, 64})
      for (const int zero_point : {0, 255})
        check_extreme_bytes<narrow>({{channels, 7, 8}, 9, window, 1, window / 2}, zero_point);
}

TEST_CASE("byte_pair_tile: parts of rows begin and end within panels") {
  if constexpr (has_byte_pairs<8>)
    for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u}) {
      using kernel = byte_correlation_by<8, pair_products>;
      CHECK(parts_of_bytes<8, kernel>({{16, 11, 13}, 24, 1, 1, 0}, 2, parts) == "");
      CHECK(parts_of_bytes<8, kernel>({{8, 23, 14}, 16, 1, 1, 0}, 1, parts) == "");
      CHECK(parts_of_bytes<8, kernel>({{16, 19, 22}, 16, 1, 2, 0}, 1, parts) == "");
    }
}
