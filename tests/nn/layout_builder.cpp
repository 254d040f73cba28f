// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/nn/layout_builder.hpp>

using namespace cordee;

TEST_CASE("layout_builder: packed parameters do not overlap; activations have their own index") {
  layout_builder layout{};
  std::size_t end = 0;
  for (const std::size_t numbers : {0U, 1U, 63U, 64U, 65U}) {
    CAPTURE(numbers);
    const std::size_t at = layout.reserve_packed<double>(numbers);
    CHECK(at >= end);
    CHECK(at % (detail::core::segment_alignment * sizeof(double)) == 0);
    end = at + numbers * sizeof(double);
    CHECK(layout.packed_size >= end);
  }
  CHECK(layout.add_activation(8) == 0);
  CHECK(layout.add_activation(0) == 1);
  CHECK(layout.add_activation(24) == 2);
  CHECK(layout.activations == 3);
  CHECK(layout.kept.bytes == 32);
  for (const std::size_t numbers : {3U, 7U, 5U}) layout.note_activation_size(numbers);
  CHECK(layout.largest_activation == 7);
}

TEST_CASE("layout_builder: activations of a recomputed block are the block's") {
  layout_builder layout{};
  detail::nn::buffer_sizes block;
  CHECK(layout.add_activation(8) == 0);
  layout.block = &block;
  CHECK(layout.add_activation(16) == detail::nn::recomputed_activation);
  CHECK(layout.add_last_activation(4) == detail::nn::recomputed_activation);
  CHECK(layout.position().bytes == 20);
  layout.block = nullptr;
  CHECK(block.count == 2);
  CHECK(layout.position().bytes == 8);
  CHECK(layout.add_last_activation(4) == 1);  // beside the arena
  CHECK(layout.pass.separate == 4);
  CHECK(layout.kept.bytes == 8);
}

TEST_CASE("layout_builder: a layer's output is where a neighbor has said, once") {
  layout_builder layout{};
  layout.output_index = detail::nn::temporary_activation;
  CHECK(layout.add_output(8) == detail::nn::temporary_activation);
  CHECK(layout.pass.temporaries == 8);
  CHECK(layout.add_output(8) == 0);
  CHECK(layout.kept.bytes == 8);
}

TEST_CASE("layout_builder: a backward-only range of packed weights is forward's in recompute") {
  layout_builder layout{};
  layout.split_packed(0, 64, 64, 128);
  detail::nn::buffer_sizes block;
  layout.block = &block;
  layout.split_packed(128, 192, 192, 256);
  CHECK(layout.backward_only.size() == 4);
  CHECK(layout.forward_only.size() == 2);
}
