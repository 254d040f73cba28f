// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is no callback of fit does not compile.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace support;

struct mistyped {
  void step(std::int64_t) {}
};
struct good {
  void step(const step_record&) {}
};
struct voiding {
  template <class Run>
  void epoch_on_all_ranks(Run&, const epoch_record&) {}
};

void run_it() {
  quadratic<fp32> model;
  trainer run{model, sgd{}, [](double) { return 0.1; }, solo{}};
  toy_loader feed;
#if defined(DATA_SET)
  run.fit(feed, 1, toy_data{});
#elif defined(MISTYPED_STEP)
  run.fit(feed, 1, mistyped{});
#elif defined(VOID_EPOCH_ON_ALL_RANKS)
  run.fit(feed, 1, voiding{});
#else
  run.fit(feed, 1, validation{toy_data{}}, good{});
#endif
}
