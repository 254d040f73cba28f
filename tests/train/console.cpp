// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/train/console.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr run_plan plan{.steps = 7220,
                        .epochs = 722,
                        .samples = 80,
                        .global_batch = 1024,
                        .per_rank = 128,
                        .ranks = 4,
                        .accumulate = 2};

}  // namespace

TEST_CASE("console: without a terminal, lines; with a bar, carriage returns") {
  for (const bool bar : {false, true}) {
    const std::string said =
        written([&](std::FILE* out) { toy_run(console{{.seconds = 0, .bar = bar, .out = out}}); });
    CHECK(contains(said, "global batch 1 = 1 per rank x 1 ranks x 1 accumulated; 20 steps"));
    CHECK(contains(said, "step 20/20"));
    CHECK(contains(said, "skips 1"));
    CHECK(contains(said, "epoch 2/2"));
    CHECK(contains(said, "held out: loss"));
    CHECK(contains(said, "of 21"));
    CHECK((count(said, "\r") > 0) == bar);
    CHECK(contains(said, bar ? "[====================]" : "step 1/20"));
  }
}

TEST_CASE("console: a file is no terminal, and gets lines unasked") {
  const std::string said = written([](std::FILE* out) {
    console c{{.seconds = 0, .out = out}};
    c.begin(plan);
    c.step(record_of(0));
  });
  CHECK(count(said, "\n") == 2);
  CHECK(count(said, "\r") == 0);
}

TEST_CASE("console: quiet for as long as it was told to be") {
  const std::string said = written(
      [](std::FILE* out) { toy_run(console{{.seconds = 1000, .bar = false, .out = out}}); });
  CHECK(count(said, "step ") == 0);
  CHECK(count(said, "\nepoch ") == 2);
}

TEST_CASE("console: a line is about all steps since the line before") {
  const std::string said = written([](std::FILE* out) {
    console c{{.seconds = 4, .bar = false, .out = out}};
    c.begin(plan);
    c.step(record_of(0));  // at 1.5 s
    step_record worse = record_of(1);
    worse.train.loss = 60;
    worse.train.top1 = 8;
    c.step(worse);         // at 3 s
    c.step(record_of(2));  // at 4.5 s: the first line, of 24 samples
    c.step(record_of(3));  // at 6 s
    c.step(record_of(4));  // at 7.5 s
    c.step(record_of(5));  // at 9 s: the second
  });
  CHECK(count(said, "step ") == 2);
  // 84 / 24, 12 of 24, 24 samples in 4.5 seconds; 7217 more steps of 1.5 s make 10,825.5 s.
  CHECK(contains(said,
                 "step 3/7220  epoch 0.20  loss 3.5000  top-1 50.0 %  rate 0.25  5 images/s  |g| "
                 "0.125  skips 0  left 3:00:26\n"));
  CHECK(contains(said, "step 6/7220  epoch 0.50  loss 1.5000  top-1 25.0 %"));
}

TEST_CASE("console: a bar moves ten times as often as lines come") {
  for (const auto& [bar, shown] : {std::pair{false, 0u}, {true, 3u}}) {
    const std::string said = written([&, b = bar](std::FILE* out) {
      console c{{.seconds = 15, .bar = b, .out = out}};
      c.begin({.steps = 4, .epochs = 1});
      for (int k = 0; k < 3; ++k) c.step(record_of(k));
    });
    CHECK(count(said, "step ") == shown);
    CHECK(count(said, "[===============     ] ") == (bar ? 1 : 0));
  }
}

TEST_CASE("console: a run that was taken up again counts what is left of it") {
  const std::string said = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    run_plan rest = plan;
    rest.first_step = 7120;
    c.begin(rest);
    step_record r = record_of(7121);
    r.seconds = 3;  // two steps, and 98 to go
    c.step(r);
  });
  CHECK(contains(said, "= 128 per rank x 4 ranks x 2 accumulated; 100 steps, 722 epochs"));
  CHECK(contains(said, "left 2:27\n"));
}

TEST_CASE("console: a radius near 1, or beyond, is warned of before the first step") {
  const auto begun_with = [](double radius) {
    return written([&](std::FILE* out) {
      run_plan p = plan;
      p.radius = radius;
      console{{.bar = false, .out = out}}.begin(p);
    });
  };
  CHECK(contains(begun_with(0.9995),
                 "722 epochs of 80 samples\nwarning: the ranks' disagreement is "
                 "multiplied by 0.9995 a round: too near to 1"));
  CHECK(contains(begun_with(1.25),
                 "warning: the ranks' disagreement is multiplied by 1.25 a round: "
                 "they drift apart\n"));
  for (const double fine : {0.0, 0.94, 0.999, std::nan("")})
    CHECK(count(begun_with(fine), "warning") == 0);
}

TEST_CASE("console: norms of ranks that step alone are called so") {
  const std::string said = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    c.begin(plan);
    step_record r = record_of(0);
    r.grad_norm_local = true;
    c.step(r);
  });
  CHECK(contains(said, "|g| (rms of ranks) 0.125"));
}

TEST_CASE("console: an epoch's line has what was held out, and what was skipped, where there is") {
  const std::string said = written([](std::FILE* out) {
    console c{{.bar = false, .out = out}};
    c.begin(plan);
    epoch_record e{record_of(9), {200, 20, 60, 80}, std::nullopt};
    c.epoch(e);
    e.last = record_of(19);
    e.last.skipped = 3;
    e.held_out = score{30, 15, 18, 20};
    c.epoch(e);
    c.end({e, 20, 3, 64});
  });
  CHECK(contains(said, "\nepoch 1/722  loss 2.5000  top-1 25.00 %\n"));
  CHECK(contains(said,
                 "\nepoch 2/722  loss 2.5000  top-1 25.00 %  | held out: loss 1.5000  top-1 75.00 "
                 "% of 20  | skipped 3\n"));
  CHECK(contains(said, "\n20 steps in 1:04, 320 images/s\n"));
}
