// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// That networks allocate these sizes is tested in tests/nn/recompute.cpp.
#include <doctest/doctest.h>

#include <cordee/nn/pass_memory.hpp>

using namespace cordee::detail::nn;

TEST_CASE("pass_memory: a residual block within a block is part of it, unless it is recomputed") {
  pass_layout layout;
  layout.number = layout.real = 4;
  const pass_layout::mark outer{{0, 0}, 0, 0}, inner{{100, 1}, 0, 100};
  layout.activation_buffers = 3;
  layout.end_block(inner, 300, 1'000, 50, true);
  layout.end_block(outer, 400, 1'000, 50, true);
  REQUIRE(layout.blocks.size() == 1);
  CHECK(layout.blocks[0].activations.bytes == 400);
  CHECK(layout.blocks[0].activations.count == 3);
  CHECK(layout.blocks[0].packed == 1'000);
  layout.packed = 2'200;  // 1,200 are in no block
  CHECK(layout.weight_slots() == 2 * 1'280);

  layout.blocks[0].recomputed = true;
  layout.end_block(outer, 500, 1'000, 50, true);
  REQUIRE(layout.blocks.size() == 1);
  CHECK(layout.blocks[0].recomputed);
}

TEST_CASE("pass_memory: a stack has the outputs so far, and one block") {
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
