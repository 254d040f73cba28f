// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE("byte_rows: two rows of seven pixels are a tile of fourteen") {
  for (const int height : {1, 2, 3, 5}) {
    check_bytes<direct>({{32, height, 7}, 64, 3, 1, 1}, 1, 100);
    check_bytes<direct>({{16, 2 * height, 14}, 32, 3, 2, 1}, 1, 100);
    check_bytes<direct>({{3, 2 * height, 13}, 48, 7, 2, 3}, 1, 100);
  }
}

TEST_CASE("byte_rows: rows of a multiple of seven pixels are tiles of fourteen and seven") {
  for (const int width : {14, 21, 49, 63}) {
    check_bytes<direct>({{16, 2, width}, 32, 3, 1, 1}, 1, 100);
    check_bytes<direct>({{16, 2, width}, 16, 1, 1, 0}, 1, 100);
  }
}
