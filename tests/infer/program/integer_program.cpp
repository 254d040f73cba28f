// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/program/integer_program.hpp>
#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

namespace {
using net = resnet<14, int8, cpu, resnet_options{.shortcut = shortcut::b}>;
integer_program program_of_net() {
  const auto list = list_layers(static_cast<const net*>(nullptr));
  const auto plane = support::random_plane<net>(1);
  return program_builder(list, plane).build(net::input, {});
}
}  // namespace

TEST_CASE("memory_plan: what is still read is not overwritten, and memory is used again") {
  const integer_program program = program_of_net();
  const auto sizes = plain_sizes(program);
  const memory_plan plan(program, sizes);
  std::size_t sum = 0;
  // Writes each step's number into its memory; before a step, its inputs must hold theirs.
  std::vector<int> owner(plan.size, -2);
  const auto write = [&](int step) {
    const auto i = static_cast<std::size_t>(step + 1);
    REQUIRE(plan.offsets[i] % memory_plan::alignment == 0);
    REQUIRE(plan.offsets[i] + sizes[i] <= plan.size);
    for (std::size_t k = 0; k < sizes[i]; ++k) owner[plan.offsets[i] + k] = step;
    sum += sizes[i];
  };
  const auto intact = [&](int step) {
    const auto i = static_cast<std::size_t>(step + 1);
    for (std::size_t k = 0; k < sizes[i]; ++k)
      if (owner[plan.offsets[i] + k] != step) return false;
    return true;
  };
  write(-1);
  for (int k = 0; k < static_cast<int>(program.steps.size()); ++k) {
    const integer_step& s = program.steps[static_cast<std::size_t>(k)];
    write(k);  // before the check: a step's output must not overlap what it reads
    CHECK(intact(s.input));
    if (s.residual >= 0) CHECK(intact(s.residual));
  }
  CHECK(plan.size < sum / 2);
}

TEST_CASE("memory_plan: in chains, outputs take the place of what is added to them") {
  integer_program program{.image = {1, 4, 4}, .table = {}, .steps = {}};
  const auto add = [&](int input, int residual) {
    integer_convolution c;
    c.problem = {{1, 4, 4}, 1, 1, 1, 0};
    program.steps.push_back({.layer = c, .input = input, .residual = residual, .bytes = 4});
  };
  add(-1, -1);  // 0: added by 2
  add(0, -1);   // 1
  add(1, 0);    // 2: in a chain with 3
  add(2, -1);   // 3: not over 1, which 2 may still read
  const auto sizes = plain_sizes(program);
  const std::vector<int> chains{0, 1, 3, 3}, alone{0, 1, 2, 3};
  const auto offset = [&](const std::vector<int>& of, std::size_t step) {
    return memory_plan(program, sizes, of).offsets[step + 1];
  };
  CHECK(offset(chains, 2) == offset(chains, 0));
  CHECK(offset(chains, 3) != offset(chains, 1));
  CHECK(offset(alone, 3) == offset(alone, 1));
  CHECK(memory_plan(program, sizes).offsets[3] != memory_plan(program, sizes).offsets[1]);
}
