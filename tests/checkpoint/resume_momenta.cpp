// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers that exchange momenta: a run that is resumed from either phase, whose numbers of
// segments are in the checkpoint, equals the uninterrupted one to the bit.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/optim/zero_one_adam.hpp>

#include "tests/checkpoint/resumed_run.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Exchanges in step 3, then not before step 7: the checkpoint is between two exchanges.
constexpr zero_one_adam local_early{.weight_decay = 0.1,
                                    .var_freeze_step = 2,
                                    .var_update_scaler = 2,
                                    .local_step_scaler = 1,
                                    .local_step_clipper = 4};

/// The numbers of segments that a checkpoint of `checkpoint_epoch` has.
template <class O, class MakeReducer>
std::vector<double> saved_numbers(const O& optimizer, const MakeReducer& make_reducer) {
  const folder files;
  return on_ranks(2, [&](threads comm) {
    const auto train = [&](double epochs) {
      labelled<fp32> model;
      trainer run{model, optimizer, falling, make_reducer(comm)};
      const bool resumed = run.resume(files.file("runs"));
      CHECK(resumed == (epochs == 0));
      auto feed = labelled_feed(comm);
      if (!resumed) run.fit(feed, epochs, checkpoint{.folder = files.file("runs")});
      return run.state().optimizer;
    };
    const std::vector<double> written = train(checkpoint_epoch);
    CHECK(train(0) == written);
    return written;
  })[0];
}

}  // namespace

TEST_CASE("resume: zero_one_adam, from common steps and from between two exchanges") {
  REQUIRE_FALSE(local_early.exchanges({.step = checkpoint_step - 1}));
  REQUIRE_FALSE(local_early.exchanges({.step = checkpoint_step}));
  zero_one_adam local_late = local_early;
  local_late.var_freeze_step = checkpoint_step + 1;
  resumes<fp32>("common steps", local_late, falling, by_signs_from(0));
  resumes<fp32>("between two exchanges", local_early, falling, by_signs_from(0));
}

TEST_CASE("resume: one_bit_lamb, from its warm-up and from compressed steps") {
  for (const double start : {0.5, 2.0}) {
    CAPTURE(start);
    const one_bit_lamb optimizer{.weight_decay = 0.1, .start_epoch = start};
    resumes<fp32>("one_bit_lamb", optimizer, falling, by_signs_from(start));
  }
}

TEST_CASE("resume: a checkpoint has an optimizer's numbers of each segment") {
  const auto nonzero = [](const std::vector<double>& numbers) {
    return numbers.size() - static_cast<std::size_t>(std::count(numbers.begin(), numbers.end(), 0));
  };
  constexpr std::size_t trained = t4_start.size();
  const auto rates = saved_numbers(local_early, by_signs_from(0));
  CHECK(nonzero(rates) == trained);  // the sum of learning rates since step 3
  const auto averages = saved_numbers(one_bit_lamb{.start_epoch = 2}, by_signs_from(2));
  CHECK(nonzero(averages) == trained);  // average ratios, but no factors yet
  const auto factors = saved_numbers(one_bit_lamb{.start_epoch = 0.5}, by_signs_from(0.5));
  CHECK(nonzero(factors) == 2 * trained);
}
