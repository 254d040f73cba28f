// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/infer/cpu/stage_plan.hpp>

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

/// Convolutions of so many channels and pixels, a mean and a classifier.
integer_program program_of(int channels, int side) {
  integer_program p;
  p.image = {3, side, side};
  const auto add = [&](auto layer) {
    const int input = static_cast<int>(p.steps.size()) - 1;
    p.steps.push_back({.layer = std::move(layer), .input = input});
  };
  integer_convolution c;
  c.problem = {p.image, channels, 3, 1, 1};
  add(c);
  c.problem.in.channels = channels;
  for (int k = 0; k < 4; ++k) add(c);
  add(mean_problem{c.problem.in});
  integer_classifier last;
  last.features = static_cast<std::size_t>(channels);
  last.classes = 10;
  last.weights.resize(last.features * last.classes);
  add(last);
  return p;
}

}  // namespace

TEST_CASE("stage_plan: its stages are all steps in their order, those of one part together") {
  for (const int channels : {1, 16, 256})
    for (const std::size_t workers : {1u, 2u, 3u, 5u, 8u})
      for (const stage_costs& costs : {stage_costs{}, {0, 0}, {200'000, 1'000'000'000'000}}) {
        const integer_program program = program_of(channels, 32);
        const stage_plan plan(program, workers, costs);
        int next = -1;
        bool together = true;
        for (const stage_plan::stage& s : plan.stages()) {
          CHECK(s.first == next);
          CHECK(s.parts >= 1);
          CHECK(s.parts <= workers);
          CHECK((s.parts == 1 || s.last == s.first + 1));
          if (s.first >= 0) together = together && (s.parts > 1 || (&s)[-1].parts > 1);
          next = s.last;
        }
        CHECK(next == static_cast<int>(program.steps.size()));
        CHECK(together);
      }
  CHECK(stage_plan(program_of(16, 32), 3, {0, 0}).stages().size() == 8);
  CHECK(stage_plan(program_of(16, 32), 3, {0, 1'000'000'000'000}).stages().size() == 1);
}

TEST_CASE("stage_plan: workers share what a round of them leaves, unless that takes longer") {
  const stage_plan large(program_of(256, 32), 8), one(program_of(256, 32), 1);
  for (const std::size_t images : {0u, 1u, 2u, 5u, 6u, 8u, 13u})
    CHECK(large.alone(images) == images / 8 * 8);
  CHECK(large.alone(7) == 7);  // 7/8 of an image's time
  CHECK(large.alone(15) == 15);
  const stage_plan tiny(program_of(1, 4), 8);  // a microsecond or less
  for (const std::size_t images : {0u, 1u, 2u, 7u, 9u}) {
    CHECK(tiny.alone(images) == images);
    CHECK(one.alone(images) == images);
  }
}
