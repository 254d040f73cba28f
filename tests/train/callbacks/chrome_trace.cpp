// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/io/json.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/chrome_trace.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/foreign_locale.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Two buckets (W1 and b1, W2 and b2), two micro-batches, validation after each ten updates.
void traced_run(int ranks, const std::string& path, std::int64_t steps, std::int64_t skip = 0,
                double epochs = 2) {
  on_ranks(ranks, [&](threads comm) {
    quadratic<fp64> model;
    trainer run{model, sgd{}, constant{.learning_rate = 0.05}, ring{comm}, {.bucket_bytes = 1024}};
    toy_loader feed{.rank_count = ranks, .micro = 2};
    run.fit(feed, epochs, validation{toy_data{}},
            chrome_trace{.path = path, .steps = steps, .skip = skip});
    CHECK(detail::core::trace_sinks == nullptr);
    return 0;
  });
}

std::size_t count_named(const std::string& text, const std::string& name) {
  return count(text, "\"name\": \"" + name + "\", \"args\": {");
}

}  // namespace

TEST_CASE("chrome_trace: every rank's steps, passes, input, updates, validations and exchanges") {
  const folder here;
  const char* const asked = std::getenv("CORDEE_TRACE_FILE");  // tests/scripts/trace_events.py
  const std::string file = asked != nullptr ? asked : here.file("trace.json");
  for (const int ranks : {1, 3}) {
    traced_run(ranks, file, 100);
    const std::string text = contents(file);
    const auto times = static_cast<std::size_t>(ranks);
    CHECK(count_named(text, "process_name") == times);
    CHECK(count_named(text, "step") == 20 * times);
    CHECK(count_named(text, "input") == 20 * times);
    CHECK(count_named(text, "forward") == 40 * times);
    CHECK(count_named(text, "backward") == 40 * times);
    CHECK(count_named(text, "wait for exchange") == 20 * times);
    CHECK(count_named(text, "update") == 20 * times);
    CHECK(count_named(text, "validation") == 2 * times);
    CHECK(count_named(text, "exchange") == 40 * times);
    for (const char* bucket : {"{\"bucket\": 0}", "{\"bucket\": 1}"})
      CHECK(count(text, bucket) == 20 * times);
    CHECK(count(text, "\"name\": \"rank " + std::to_string(ranks - 1) + "\"") == 1);
    CHECK(text.rfind("[\n{", 0) == 0);
    CHECK(text.substr(text.size() - 5) == "}}\n]\n");
  }
}

TEST_CASE("chrome_trace: of the updates that were asked for, and of no others") {
  const folder here;
  const std::string file = here.file("trace.json");
  traced_run(2, file, 3, 5);
  const std::string text = contents(file);
  CHECK(count_named(text, "step") == 2 * 3);
  CHECK(count_named(text, "exchange") == 2 * 2 * 3);
  CHECK(count_named(text, "validation") == 0);
  for (const int k : {5, 6, 7})  // the input of an update is read during the one before
    CHECK(count(text, "\"name\": \"step\", \"args\": {\"step\": " + std::to_string(k) + "}") == 2);
  CHECK(count(text, "\"name\": \"input\", \"args\": {\"step\": 8}") == 2);
  traced_run(2, file, 3, 30);  // more than there are
  CHECK(count_named(contents(file), "step") == 0);
  CHECK(count_named(contents(file), "process_name") == 2);
}

TEST_CASE("chrome_trace: a resumed run and a further fit write files of their own") {
  const folder here;
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  toy_loader feed;
  for (const char* name : {"trace.json", "a.b/trace", "a.b/trace.tar.json"}) {
    std::filesystem::create_directories(here.file("a.b"));
    feed.next_step = 0;
    chrome_trace trace{here.file(name)};
    run.fit(feed, 1, trace);
    const std::string first = contents(here.file(name));
    CHECK(count_named(first, "step") == 10);
    run.fit(feed, 1.5, trace);
    CHECK(contents(here.file(name)) == first);
  }
  for (const char* name : {"trace.step-10.json", "a.b/trace.step-10", "a.b/trace.step-10.tar.json"})
    CHECK_MESSAGE(count_named(contents(here.file(name)), "step") == 5, name);
}

TEST_CASE("chrome_trace: a fit after one that threw has the updates that were asked for alone") {
  struct thrower {
    std::int64_t at;
    void step(const step_record& r) const {
      if (r.info.step == at) throw error("enough");
    }
  };
  const folder here;
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  toy_loader feed;
  chrome_trace trace{here.file("trace.json"), 3, 5};
  CHECK_THROWS(run.fit(feed, 2, trace, thrower{6}));
  feed.next_step = 0;
  run.fit(feed, 1, trace, thrower{-1});
  CHECK(count_named(contents(here.file("trace.json")), "step") == 3);
}

TEST_CASE("chrome_trace: a fit that throws leaves no sink behind, also of a courier at work") {
  const folder here;
  struct thrower {
    void step(const step_record& r) {
      if (r.info.step == 3) throw error("enough");
    }
  };
  for (const int ranks : {1, 3}) {
    const auto rank = [&](threads comm) {
      quadratic<fp64> model;
      trainer run{model, sgd{}, constant{.learning_rate = 0.05}, ring{comm}};
      toy_loader feed{.rank_count = ranks};
      const std::string message = error_message(
          [&] { run.fit(feed, 2, chrome_trace{here.file("trace.json")}, thrower{}); });
      CHECK(!message.empty());
      CHECK(detail::core::trace_sinks == nullptr);
      return 0;
    };
    CHECK(contains(error_message([&] { on_ranks(ranks, rank); }), "enough"));
  }
  const std::string text = contents(here.file("trace.json"));
  CHECK(text.rfind("[\n", 0) == 0);
}

TEST_CASE(
    "chrome_trace: what cannot be written or makes no sense is an error before the first step") {
  CHECK(contains(error_message([] { traced_run(2, "/nowhere/at/all", 3); }),
                 "chrome_trace: cannot open \"/nowhere/at/all\""));
  if (std::filesystem::exists("/dev/full"))
    CHECK(contains(error_message([] { traced_run(1, "/dev/full", 1000); }),
                   "chrome_trace: cannot write \"/dev/full\""));
  else
    support::skip("no /dev/full, a file that is always full");
  for (const std::int64_t steps : {0, -1})
    CHECK(contains(error_message([&] { traced_run(1, "trace.json", steps); }),
                   "chrome_trace: .steps is at least 1"));
}

TEST_CASE("chrome_trace: an application's locale changes no number") {
  const foreign_locale german;
  const std::string text = detail::train::trace_lines(
      {{"step", 1234, 0.0015, 0.00175, detail::core::trace_track::compute}}, 0);
  CHECK(contains(text, "\"ts\": 1500.000, \"dur\": 250.000"));
  CHECK(contains(text, "\"step\": 1234}"));
}
