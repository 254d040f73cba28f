// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/step/residence.hpp>

using namespace cordee;

TEST_CASE("residence: what brings the planes back is called until they are there") {
  struct away {
    detail::train::residence of;
    int returns = 0;
  } run;
  const detail::train::planes_elsewhere where{&run, [](void* self) {
                                                auto& own = *static_cast<away*>(self);
                                                if (++own.returns == 2)
                                                  own.of.set_elsewhere(nullptr);
                                              }};
  run.of.make_resident();
  CHECK(run.returns == 0);
  run.of.set_elsewhere(&where);
  for (int accesses = 0; accesses < 3; ++accesses) run.of.make_resident();
  CHECK(run.returns == 2);
}

TEST_CASE("residence: a step that throws has not ended") {
  detail::train::residence of;
  CHECK(!of.in_step());
  of.begin_step();
  CHECK(of.in_step());
  of.begin_step();
  of.end_step();
  CHECK(!of.in_step());
  CHECK(!of.is_swapped());
}
