// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sentences of a batch that does not fit are tested in tests/nn/largest_batch.cpp, totals in
// tests/train/step/memory_plan.cpp.
#include <doctest/doctest.h>

#include <cordee/nn/memory_policies.hpp>

using namespace cordee::detail::nn;

TEST_CASE("memory_policies: 16-bit numbers halve what grows with samples, and back") {
  pass_layout layout;
  layout.number = layout.real = 4;
  layout.input = 100;
  layout.add_part({500, 1}, 400);
  const pass_memory pass = layout.of(3);
  int policies = 0;
  for_each_memory_policy(layout, pass, 3, [&](const memory_policy& p) {
    ++policies;
    CHECK(!p.in_use);
    CHECK(p.pass.sum() == pass.sum() / 2);
  });
  layout.number = 2;
  for_each_memory_policy(layout, pass, 3, [&](const memory_policy& p) {
    ++policies;
    CHECK(p.in_use);
    CHECK(p.pass.sum() == 2 * pass.sum());
  });
  CHECK(policies == 2);
}
