// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that leaves the device saves, and goes on from, the checkpoints of runs that stay there.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>

#include "tests/support/folder.hpp"
#include "tests/train/swapped_runs.hpp"

using namespace cordee;
using namespace support;

namespace {

enum class swapped_part { whole, first, second };

/// Two steps, or the first and a checkpoint, or a checkpoint and the second; then the planes.
template <class D>
std::vector<float> train_swapped(const std::string& runs, swapped_part part, bool swaps) {
  run_and_teacher<D, member_net<D>> all(member_optimizer);
  auto& run = all.run;
  const swapped_trainer student{all.group, "student", run};
  const auto leave = [&] {
    if (!swaps) return;
    visit(all.teacher, run.compute());
    CHECK(student.is_out());
  };
  if (part == swapped_part::second) {
    leave();
    CHECK(run.resume(runs));
  }
  upload<D> uploaded(all.device);
  for (int k = 0; k < (part == swapped_part::first ? 1 : 2); ++k) {
    const auto& batches = all.feed.next();
    leave();
    if (k >= run.steps_taken())
      CHECK(run.step(uploaded.to(batches, run.compute()), all.feed.epoch(k)).applied);
  }
  leave();
  if (part == swapped_part::first) {
    detail::checkpoints::run_folder folder(runs);
    folder.create();
    detail::checkpoints::checkpoint_writer writer;
    writer.save(run, folder, 1, true);
    leave();  // while it is written
    writer.finish(run.comm());
    return {};
  }
  auto numbers = weights_on_host(run);
  leave();
  const auto slot = detail::testing::slot_of(run, 0);
  numbers.insert(numbers.end(), slot.begin(), slot.end());
  return numbers;
}

}  // namespace

TEST_CASE_TEMPLATE("swapped_trainer: checkpoints are those of a run that stays on the device", D,
                   cpu, counted_uploads) {
  const std::vector<float> whole = train_swapped<D>("", swapped_part::whole, false);
  CHECK(same_bits(train_swapped<D>("", swapped_part::whole, true), whole));
  for (const bool first : {false, true}) {
    CAPTURE(first);
    const folder files;
    train_swapped<D>(files.file("runs"), swapped_part::first, first);
    CHECK(same_bits(train_swapped<D>(files.file("runs"), swapped_part::second, !first), whole));
  }
}
