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
  const pass_layout::mark outer{0, 0, 0}, inner{1, 0, 100};
  layout.add_part({100, 1}, 30);
  layout.temporaries = 7;
  layout.add_part({200, 1}, 60);
  layout.end_block(inner, 1'000, 50, true);
  layout.add_part({100, 1}, 40);
  layout.end_block(outer, 1'000, 50, true);
  REQUIRE(layout.blocks.size() == 1);
  REQUIRE(layout.parts.size() == 1);
  CHECK(layout.parts[0].gradients == 60);
  CHECK(layout.parts[0].behind == 100 + 200 + 100 + 40);
  CHECK(layout.parts[0].temporaries == 7);
  CHECK(layout.blocks[0].activations.bytes == 400);
  CHECK(layout.blocks[0].activations.count == 3);
  CHECK(layout.blocks[0].packed == 1'000);
  layout.packed = 2'200;  // 1,200 are in no block
  CHECK(layout.weight_slots() == 2 * 1'280);

  layout.blocks[0].memory = block_memory::recomputed;
  layout.add_part({100, 1}, 40);
  layout.end_block(outer, 1'000, 50, true);
  REQUIRE(layout.blocks.size() == 1);
  CHECK(layout.blocks[0].memory == block_memory::recomputed);
}
