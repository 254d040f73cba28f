// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cordee/data/loader.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/console.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/foreign_locale.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

const run_plan plan{.steps = 7220,
                    .epochs = 722,
                    .samples = 80,
                    .global_batch = 1024,
                    .micro_batch = 128,
                    .ranks = 4,
                    .accumulate = 2};

}  // namespace

TEST_CASE("console: prints lines without a bar, and carriage returns with one") {
  for (const bool bar : {false, true}) {
    const std::string text =
        written([&](std::FILE* out) { toy_run(console{{.seconds = 0, .bar = bar, .out = out}}); });
    CHECK(contains(text, "global batch 1 = 1 per micro-batch x 1 ranks x 1 accumulated; 20 steps"));
    CHECK(contains(text, "step 20/20"));
    CHECK(contains(text, "skipped 1"));
    CHECK(contains(text, "epoch 2/2"));
    CHECK(contains(text, "validation: loss"));
    CHECK(contains(text, "of 21"));
    CHECK((count(text, "\r") > 0) == bar);
    CHECK(contains(text, bar ? "[====================]" : "step 1/20"));
  }
}

TEST_CASE("console: a file gets lines by default") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .out = out}};
    c.begin(plan);
    c.step(record_of(0));
  });
  CHECK(count(text, "\n") == 2);
  CHECK(count(text, "\r") == 0);
}

TEST_CASE("console: prints no step within the interval") {
  const std::string text = written(
      [](std::FILE* out) { toy_run(console{{.seconds = 1000, .bar = false, .out = out}}); });
  CHECK(count(text, "step ") == 0);
  CHECK(count(text, "\nepoch ") == 2);
}

TEST_CASE("console: an interval that is NaN is refused") {
  CHECK(contains(error_message([] { console{{.seconds = std::nan(""), .bar = false}}; }),
                 "console: .seconds is NaN"));
}

TEST_CASE("console: a line has the means over all steps since the line before") {
  const std::string text = written([](std::FILE* out) {
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
  CHECK(count(text, "step ") == 2);
  // 84 / 24, 12 of 24, 24 samples in 4.5 seconds; 7217 more steps of 1.5 s make 10,825.5 s.
  CHECK(contains(text,
                 "step 3/7220  epoch 0.20  loss 3.5000  top-1 50.0 %  lr 0.25  5 images/s  |g| "
                 "0.125  skipped 0  left 3:00:26\n"));
  CHECK(contains(text, "step 6/7220  epoch 0.50  loss 1.5000  top-1 25.0 %"));
}

TEST_CASE("console: no accuracy of a model that does not count right predictions") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    c.begin(plan);
    step_record r = record_of(0);
    r.train.top1 = -2;
    c.step(r);
    c.epoch({.last = r, .train = r.train, .validation = r.train});
  });
  CHECK(contains(text, "step 1/7220"));
  CHECK(contains(text, "  | validation: loss"));
  CHECK_FALSE(contains(text, "top-1"));
}

TEST_CASE("console: a further fit with the same object begins anew") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 4, .bar = false, .out = out}};
    c.begin(plan);
    for (int k = 0; k < 4; ++k) c.step(record_of(k));  // a line at 4.5 s
    step_record worse = record_of(4);
    worse.train.loss = 60;
    c.step(worse);  // at 7.5 s: in no line
    c.end({.steps = 5});
    c.begin(plan);
    for (int k = 0; k < 3; ++k) c.step(record_of(k));  // a line at 4.5 s
  });
  CHECK(count(text, "step 3/7220  epoch 0.20  loss 1.5000  top-1 25.0 %  lr 0.25  5 images/s") ==
        2);
  CHECK(count(text, "step ") == 2);
}

TEST_CASE("console: a terminal gets a bar, unless TERM says that it redraws no lines") {
  const char* const of_this_process = std::getenv("TERM");
  const std::string before = of_this_process == nullptr ? "" : of_this_process;
  for (const auto& [terminal, bar] : {std::pair{"xterm", true}, {"dumb", false}}) {
    ::setenv("TERM", terminal, 1);
    const int screen = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(screen >= 0);
    REQUIRE((::grantpt(screen) == 0 && ::unlockpt(screen) == 0));
    std::FILE* const out = std::fopen(::ptsname(screen), "w");
    REQUIRE(out != nullptr);
    console c{{.seconds = 0, .out = out}};
    c.begin(plan);
    c.step(record_of(0));
    std::string seen;
    pollfd from{screen, POLLIN, 0};
    while (seen.find("step 1/7220") == seen.npos && ::poll(&from, 1, 30'000) > 0) {
      char part[256];
      const ssize_t size = ::read(screen, part, sizeof part);
      REQUIRE(size > 0);
      seen.append(part, static_cast<std::size_t>(size));
    }
    CHECK(contains(seen, "step 1/7220"));
    CHECK(contains(seen, "\x1b[K") == bar);
    std::fclose(out);
    ::close(screen);
  }
  of_this_process == nullptr ? ::unsetenv("TERM") : ::setenv("TERM", before.c_str(), 1);
}

TEST_CASE("console: a bar is printed ten times as often as lines") {
  for (const auto& [bar, shown] : {std::pair{false, 0u}, {true, 3u}}) {
    const std::string text = written([&, b = bar](std::FILE* out) {
      console c{{.seconds = 15, .bar = b, .out = out}};
      c.begin({.steps = 4, .epochs = 1});
      for (int k = 0; k < 3; ++k) c.step(record_of(k, 4));
    });
    CHECK(count(text, "step ") == shown);
    CHECK(count(text, "[===============     ] ") == (bar ? 1 : 0));
  }
}

TEST_CASE("console: epochs and images are those of a batch that grows") {
  struct in_one_second {
    console shown;
    void begin(const run_plan& p) { shown.begin(p); }
    void step(const step_record& r) { shown.step(r); }
    void epoch(const epoch_record& e) { shown.epoch(e); }
    void end(run_summary s) {
      s.seconds = 1;
      shown.end(s);
    }
  };
  // Epochs of 4, 4, 2 and 1 updates: 24 samples each.
  const std::string text = written([](std::FILE* out) {
    quadratic<fp64> model;
    trainer run{model, lars{.trust_coefficient = 0.02}, constant{0.05}, solo{}};
    loader feed{
        toy_data{24}, rank_stub{}, {.global_batch = 6, .batch_schedule = {{{2, 2}, {3, 4}}}}};
    run.fit(feed, 4, in_one_second{console{{.seconds = 0, .bar = false, .out = out}}});
  });
  for (const char* line : {"\nepoch 1/4 ", "\nepoch 2/4 ", "\nepoch 3/4 ", "\nepoch 4/4 "}) {
    INFO(line);
    CHECK(contains(text, line));
  }
  CHECK(contains(text, "\nstep 11/11 "));
  CHECK(contains(text, "\n11 steps in 0:01, 96 images/s\n"));
}

TEST_CASE("console: the steps of a run are those of the batches decided so far") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = true, .out = out}};
    c.begin({.steps = 40, .epochs = 4});
    step_record r = record_of(9, 20);
    r.epochs_seen = 3;  // in 15 seconds
    c.step(r);
  });
  CHECK(contains(text, "[==========          ] step 10/20 "));
  CHECK(contains(text, "left 0:05"));
}

TEST_CASE("console: the time that is left is that of the samples, not of the steps") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    c.begin({.steps = 12, .first_step = 2, .epochs = 3, .first_epoch = 1});
    step_record r = record_of(9, 12);  // an epoch of 8 steps, and then one of 2
    r.seconds = 80;
    r.epochs_seen = 2;
    c.step(r);
    r = record_of(11, 12);  // carries past the end
    r.seconds = 90;
    r.epochs_seen = 3.5;
    c.step(r);
  });
  CHECK(contains(text, "left 1:20\n"));
  CHECK(contains(text, "left 0:00\n"));
}

TEST_CASE("console: a resumed run counts its remaining steps") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    run_plan rest = plan;
    rest.first_step = 7120;
    rest.first_epoch = 712;
    c.begin(rest);
    step_record r = record_of(7121);
    r.seconds = 3;  // two steps, and 98 to go
    c.step(r);
  });
  CHECK(contains(text, "= 128 per micro-batch x 4 ranks x 2 accumulated; 100 steps, 722 epochs"));
  CHECK(contains(text, "left 2:27\n"));
}

TEST_CASE("console: the plan's warnings are printed before the first step") {
  const std::string text = written([](std::FILE* out) {
    run_plan p = plan;
    p.warnings = {"the sky is falling", "the ground too"};
    console{{.bar = false, .out = out}}.begin(p);
  });
  CHECK(contains(
      text, "722 epochs of 80 samples\nwarning: the sky is falling\nwarning: the ground too\n"));
}

TEST_CASE("console: a global batch that does not divide, and a run without steps") {
  const std::string text = written([](std::FILE* out) {
    console c{{.bar = false, .out = out}};
    run_plan p = plan;
    p.global_batch = 128;
    p.micro_batch = 26;
    p.ranks = 5;
    p.accumulate = 1;
    c.begin(p);
    c.end({});
  });
  CHECK(contains(text,
                 "global batch 128 = 26 per micro-batch x 5 ranks x 1 accumulated (some have one "
                 "sample fewer); 7,220 steps"));
  CHECK(contains(text, "\nno steps: the loader is at the end of the epochs asked for\n"));
  CHECK(count(text, "images/s") == 0);
}

TEST_CASE("console: norms of local gradients are marked") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    c.begin(plan);
    step_record r = record_of(0);
    r.grad_norm_local = true;
    c.step(r);
  });
  CHECK(contains(text, "|g| (rms of ranks) 0.125"));
}

TEST_CASE("console: an epoch's line has validation metrics and skipped steps, if any") {
  const std::string text = written([](std::FILE* out) {
    console c{{.bar = false, .out = out}};
    c.begin(plan);
    for (int k = 0; k < 20; ++k) c.step(record_of(k));
    epoch_record e{record_of(9), {200, 20, 60, 80}, std::nullopt};
    c.epoch(e);
    e.last = record_of(19);
    e.last.skipped = 3;
    e.validation = metrics{30, 15, 18, 20};
    c.epoch(e);
    c.end({e, 20, 3, 8});
  });
  CHECK(contains(text, "\nepoch 1/722  loss 2.5000  top-1 25.00 %\n"));
  CHECK(
      contains(text,
               "\nepoch 2/722  loss 2.5000  top-1 25.00 %  | validation: loss 1.5000  top-1 75.00 "
               "% of 20  | skipped 3\n"));
  CHECK(contains(text, "\n20 steps in 0:08, 20 images/s\n"));
}

TEST_CASE("console: a clipped gradient has its norm before and after, and the factor") {
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    c.begin(plan);
    step_record clipped = record_of(0);
    clipped.grad_norm = 8;
    clipped.clip_factor = 0.25;
    c.step(clipped);
    clipped = record_of(1);
    clipped.clip_factor = 1;
    c.step(clipped);
  });
  CHECK(contains(text, "|g| 8 clipped to 2 (x 0.25)  skipped"));
  CHECK(contains(text, "|g| 0.125  skipped"));
}

TEST_CASE("console: an application's locale changes no character") {
  const foreign_locale german;
  const std::string text = written([](std::FILE* out) {
    console c{{.seconds = 0, .bar = false, .out = out}};
    c.begin(plan);
    step_record clipped = record_of(0);
    clipped.clip_factor = 0.25;
    c.step(clipped);
    c.epoch({record_of(9), {200, 20, 60, 80}, metrics{30, 15, 18, 20}});
  });
  CHECK(contains(text, "loss 1.5000  top-1 25.0 %  lr 0.25"));
  CHECK(contains(text, "|g| 0.125 clipped to 0.0312 (x 0.25)"));
  CHECK(contains(text, "loss 2.5000  top-1 25.00 %  | validation: loss 1.5000  top-1 75.00 %"));
}
