// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/layout.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

static_assert(channel_blocks(1, 1) == 1 && channel_blocks(0, 8) == 0);
static_assert(channel_block_size<8>(1) == 1 && channel_block_size<8>(4) == 4);
static_assert(channel_block_size<8>(5) == 8 && channel_block_size<2>(3) == 3);
static_assert(channel_block_size<2>(5) == 2);

TEST_CASE("layout: channel_blocks is the fewest blocks that hold all channels") {
  for (const int block : {1, 2, 3, 4, 8, 16})
    for (int channels = 1; channels <= 65; ++channels) {
      CAPTURE(block);
      CAPTURE(channels);
      const auto blocks = static_cast<int>(channel_blocks(channels, block));
      CHECK(blocks * block >= channels);
      CHECK((blocks - 1) * block < channels);
    }
}

TEST_CASE("layout: blocks of one channel are plain NCHW; otherwise a sample takes whole blocks") {
  const extent e{5, 7, 3};
  CHECK(sample_size(e, 1) == e.size());
  CHECK(sample_size(e, 5) == e.size());
  CHECK(sample_size(e, 4) == 8 * 21);
  CHECK(sample_size(e, 8) == 8 * 21);
  CHECK(sample_size({16, 7, 3}, 8) == 16 * 21);
  CHECK(sample_size({17, 7, 3}, 8) == 24 * 21);
}

TEST_CASE("layout: sizes above 32 bits are right") {
  CHECK(sample_size({1024, 65536, 65536}, 16) == std::size_t{1} << 42);
}
