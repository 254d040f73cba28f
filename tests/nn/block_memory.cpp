// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/block_memory.hpp>

using namespace cordee::detail::nn;

TEST_CASE("block_stack: it has the outputs so far, and one block") {
  block_stack stack;
  stack.add({300, 3}, 50, false);  // its output is copied
  CHECK(stack.most.bytes == 350);
  CHECK(stack.most.count == 4);
  stack.add({100, 2}, 50, true);
  CHECK(stack.most.bytes == 350);
  stack.add({300, 2}, 50, true);
  CHECK(stack.most.bytes == 150 + 300 - 50);
  CHECK(stack.outputs.bytes == 150);
}

TEST_CASE("block_ring: a block's memory is apart from that of the two before it, and used again") {
  block_ring ring;
  for (const std::size_t bytes : {300U, 100U, 200U, 250U, 400U, 100U}) ring.add({bytes, 1});
  const auto overlap = [&](std::size_t a, std::size_t b) {
    return ring.blocks[a].begin.bytes < ring.blocks[b].end().bytes &&
           ring.blocks[b].begin.bytes < ring.blocks[a].end().bytes;
  };
  std::size_t before = 0;
  for (std::size_t k = 0; k < ring.blocks.size(); ++k) {
    CAPTURE(k);
    CHECK(ring.blocks[k].before.bytes == before);
    CHECK(ring.blocks[k].end().bytes <= ring.most.bytes);
    before += ring.blocks[k].size.bytes;
    for (std::size_t j = k > 2 ? k - 2 : 0; j < k; ++j) CHECK_FALSE(overlap(j, k));
  }
  CHECK(ring.most.bytes >= 200 + 250 + 400);  // the most that three have
  CHECK(ring.most.bytes < before);
  CHECK(ring.blocks[3].begin.bytes == 0);  // where the first one was
  CHECK(ring.is_copied(2));
  CHECK_FALSE(ring.is_copied(3));  // the last three stay
  CHECK(ring.copied_bytes(2) == ring.blocks[3].before.bytes_of(2));
  CHECK(block_ring{}.copied_bytes(2) == 0);
}
