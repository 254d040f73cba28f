// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/nn/sequence_layout.hpp>

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

// A batch norm, a layer that does not read its input, and one whose output is not read.
constexpr std::array<noted_layer, 3> three_layers{
    {{true, false, false}, {false, true, false}, {false, false, true}}};
constexpr std::array<std::size_t, 4> numbers_between{5, 7, 11, 3};

struct bound_sequence {
  layout_builder layout{};
  sequence_bounds<3> bounds{};
  std::array<std::size_t, 3> outputs{};

  explicit bound_sequence(bool restores_outputs, std::size_t output = own_activation) {
    layout.output_index = output;
    sequence_layout sequence(layout, three_layers, numbers_between.data(), 4, restores_outputs,
                             bounds.before);
    for (std::size_t k = 0; k < three_layers.size(); ++k)
      outputs[k] = sequence.next().add_output(4 * numbers_between[k + 1]);
    sequence.next();
  }
};

}  // namespace

TEST_CASE("sequence_layout: each layer has an activation, and bounds are those before it") {
  const bound_sequence s(false);
  CHECK(s.outputs == std::array<std::size_t, 3>{0, 1, 2});
  const std::array<std::size_t, 4> before{0, 28, 72, 84};
  for (std::size_t k = 0; k < before.size(); ++k) {
    CHECK(s.bounds.before[k].bytes == before[k]);
    CHECK(s.bounds.before[k].count == k);
  }
  CHECK(s.layout.largest_activation == 11);
  REQUIRE(s.layout.pass.parts.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) {
    const auto& part = s.layout.pass.parts[k];
    CHECK(part.gradients == 4 * (numbers_between[k] + numbers_between[k + 1]));
    CHECK(part.behind == part.gradients + (k == 2 ? 0 : 4 * numbers_between[k + 1]));
    CHECK(part.restored == part.behind);
  }
}

TEST_CASE(
    "sequence_layout: an output that is computed again is temporary, the last one the caller's") {
  const bound_sequence s(true, given_activation);
  CHECK(s.outputs == std::array<std::size_t, 3>{temporary_activation, 0, given_activation});
  CHECK(s.bounds.before[1].count == 0);
  CHECK(s.bounds.before[3].count == 1);
  CHECK(s.layout.output_index == own_activation);
  REQUIRE(s.layout.pass.parts.size() == 3);
  CHECK(s.layout.pass.parts[0].temporaries == 28);
  CHECK(s.layout.pass.parts[1].restored == s.layout.pass.parts[1].behind + 28);
}

TEST_CASE("repeat_layout: all layers have the activations of the first") {
  layout_builder layout;
  layout.add_activation(100);
  repeat_bounds bounds;
  repeat_layout repeated(layout, 64, bounds);
  for (int k = 0; k < 3; ++k) {
    repeated.next().add_activation(20);
    layout.add_activation(12);
  }
  repeated.next();
  CHECK(bounds.begin.bytes == 100);
  CHECK(bounds.begin.count == 1);
  CHECK(bounds.each.bytes == 32);
  CHECK(bounds.each.count == 2);
  CHECK(bounds.end(2).bytes == 196);
  CHECK(bounds.end(2).count == 7);
  std::size_t parts = 0;
  for (const auto& part : layout.pass.parts) parts += part.gradients == 64 ? 1 : 0;
  CHECK(parts == 3);
}
