// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs on the CPU that share a swap_group.
#include <doctest/doctest.h>

#include <cordee/train/swapped_trainer.hpp>

#include "tests/train/swapped_cases.hpp"

using namespace cordee;
using namespace support;

SWAPPED_TRAINER_CASES(cpu);

TEST_CASE("swapped_trainer: on the CPU packed weights are freed, and nothing is copied") {
  run_and_teacher<cpu, member_net<cpu>> all;
  all.run.fit(all.feed, 1);
  const auto* const plane = all.run.weights().data;
  const swapped_trainer student{all.group, "student", all.run};
  CHECK(student.swapped_bytes() == 0);
  CHECK(student.resident_bytes() == all.net.packed_bytes());
  CHECK(student.describe().find("it copies nothing") != std::string::npos);
  const auto& packed = all.run.packed_parameters();
  CHECK(packed.size() > 0);
  {
    const auto resident = all.teacher.make_resident(all.run.compute());
    CHECK(packed.size() == 0);
    CHECK(student.weights().data() == plane);
  }
  CHECK(all.run.weights().data == plane);
  CHECK(packed.size() > 0);
}
