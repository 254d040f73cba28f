// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/layout.hpp>

using namespace cordee;

static_assert(blocks_of(1, 1) == 1 && blocks_of(0, 8) == 0);

TEST_CASE("layout: blocks are as few as hold all channels") {
  for (const int block : {1, 2, 3, 4, 8, 16})
    for (int channels = 1; channels <= 65; ++channels) {
      CAPTURE(block);
      CAPTURE(channels);
      const auto taken = static_cast<int>(blocks_of(channels, block));
      CHECK(taken * block >= channels);
      CHECK((taken - 1) * block < channels);
    }
}

TEST_CASE("layout: blocks of one are plain NCHW; otherwise whole blocks are paid for") {
  const extent e{5, 7, 3};
  CHECK(sample_size(e, 1) == e.size());
  CHECK(sample_size(e, 5) == e.size());
  CHECK(sample_size(e, 4) == 8 * 21);
  CHECK(sample_size(e, 8) == 8 * 21);
  CHECK(sample_size({16, 7, 3}, 8) == 16 * 21);
  CHECK(sample_size({17, 7, 3}, 8) == 24 * 21);
}

TEST_CASE("layout: sizes that 32 bits do not hold are right") {
  CHECK(sample_size({1024, 65536, 65536}, 16) == std::size_t{1} << 42);
}
