// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/train/callbacks/json_lines.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string contents(const folder& in) {
  const file_bytes bytes = in.get("log.jsonl");
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("json_lines: one object per line for the beginning, each step, each epoch, the end") {
  const folder here;
  toy_run(json_lines{here.file("log.jsonl")});
  const std::string text = contents(here);
  CHECK(text.rfind("{\"event\":\"begin\",\"step\":0,\"steps\":20,\"epochs\":2,", 0) == 0);
  CHECK(count(text, "\n") == 1 + 20 + 2 + 1);
  CHECK(count(text, "}\n{\"event\":\"step\"") == 20);
  CHECK(count(text, "}\n{\"event\":\"epoch\"") == 2);
  CHECK(count(text, "}\n{\"event\":\"end\",\"step\":19,\"steps\":20,") == 1);
  CHECK(count(text, "\"validation_loss\":") == 2);
}

TEST_CASE("json_lines: the fields of a step and of an epoch, metrics as means") {
  const folder here;
  json_lines log{here.file("log.jsonl")};
  log.begin({.first_step = 0});
  log.step(record_of(0));
  log.epoch({record_of(0), {12, 2, 6, 8}, metrics{30, 15, 18, 20}});
  log.end({.steps = 1, .skipped = 3, .seconds = 2, .stopped = true});
  const std::string text = contents(here);
  CHECK(text.substr(text.find('\n') + 1) ==
        "{\"event\":\"step\",\"step\":0,\"epoch\":0,\"learning_rate\":0.25,\"loss\":1.5,"
        "\"top1\":0.25,\"top5\":0.75,\"samples\":8,\"gradient_norm\":0.125,\"skipped\":0,"
        "\"seconds\":1.5,\"images_per_second\":5.33333333,\"input_wait_seconds\":0}\n"
        "{\"event\":\"epoch\",\"step\":0,\"epoch\":0,\"train_loss\":1.5,\"train_top1\":0.25,"
        "\"train_top5\":0.75,\"validation_loss\":1.5,\"validation_top1\":0.75,"
        "\"validation_top5\":0.9,\"seconds\":1.5}\n"
        "{\"event\":\"end\",\"step\":0,\"steps\":1,\"skipped\":3,\"seconds\":2,"
        "\"stopped\":true}\n");
}

TEST_CASE("json_lines: measurements that a run has, and no others, are fields") {
  const folder here;
  json_lines log{here.file("log.jsonl")};
  log.begin({});
  log.step(measured(record_of(0)));
  log.epoch({record_of(0), {}, {}, 0.0625});
  log.end({});
  const std::string text = contents(here);
  CHECK(contains(text,
                 ",\"input_wait_seconds\":0,\"exposed_exchange_seconds\":0.25,"
                 "\"loss_scale\":1024,\"trust_ratio_min\":1,\"trust_ratio_first_quartile\":2,"
                 "\"trust_ratio_median\":3,\"trust_ratio_third_quartile\":4,"
                 "\"trust_ratio_max\":5}\n"));
  CHECK(contains(text, ",\"consensus_distance\":0.0625,"));
}

TEST_CASE("json_lines: NaN, infinity and a mean of nothing are null") {
  const folder here;
  json_lines log{here.file("log.jsonl")};
  log.begin({});
  step_record r = record_of(0);
  r.train = {std::numeric_limits<double>::quiet_NaN(), 0, 0, 1};
  r.grad_norm = std::numeric_limits<double>::infinity();
  log.step(r);
  r.train = {};
  log.step(r);
  log.end({});
  const std::string text = contents(here);
  CHECK(count(text, "\"loss\":null,\"top1\":0,") == 1);
  CHECK(count(text, "\"loss\":null,\"top1\":null,\"top5\":null,\"samples\":0,") == 1);
  CHECK(count(text, "\"gradient_norm\":null") == 2);
  CHECK(count(text, "nan") + count(text, "inf") == 0);
}

TEST_CASE("json_lines: a resumed run replaces the lines of the steps that it repeats") {
  const folder here;
  const auto run = [&](std::int64_t first, std::int64_t last) {
    json_lines log{here.file("log.jsonl")};
    log.begin({.first_step = first});
    for (std::int64_t k = first; k < last; ++k) {
      log.step(record_of(k));
      if (k % 5 == 4) log.epoch({record_of(k), {}, {}});
    }
    return [&here] { return contents(here); };
  };
  const std::string whole = run(0, 12)();
  const std::string cut = whole.substr(0, whole.find("\"step\":10,") + 20);  // of a killed run
  for (const std::int64_t first : {1, 4, 5, 9, 10}) {
    here.put("log.jsonl", file_bytes(cut.begin(), cut.end()));
    const std::string text = run(first, 12)();
    CHECK(count(text, "\"event\":\"begin\"") == 2);
    CHECK(count(text, "\"event\":\"step\"") == 12);
    CHECK(count(text, "\"event\":\"epoch\"") == 2);
    CHECK(count(text, "}\n") == 16);
    CHECK(count(text, "\n") == 16);
    CHECK(run(first, 12)() == text);  // again from the same checkpoint
  }
  const std::string other = "step,loss\n0,1\n";
  here.put("log.jsonl", file_bytes(other.begin(), other.end()));
  CHECK(contains(error_message([&] { run(9, 12); }), "json_lines: "));
  CHECK(contents(here) == other);
}

TEST_CASE("json_lines: a further fit of the same object appends, another object begins anew") {
  const folder here;
  json_lines log{here.file("log.jsonl")};
  for (int k = 0; k < 2; ++k) {
    log.begin({.first_step = k});
    log.step(record_of(k));
    log.end({.steps = 1});
    CHECK(count(contents(here), "\n") == 3 * static_cast<std::size_t>(k + 1));
  }
  json_lines other{here.file("log.jsonl")};
  other.begin({});
  other.end({});
  CHECK(count(contents(here), "\n") == 2);
}

TEST_CASE("json_lines: a file that cannot be written is an error with its name and the remedy") {
  const std::string text = error_message([] { toy_run(json_lines{"/nowhere/at/all"}); });
  CHECK(contains(text, "json_lines: cannot open \"/nowhere/at/all\""));
  CHECK(contains(text, "name a file in a folder that exists"));
  std::int64_t steps = 0;
  if (std::filesystem::exists("/dev/full"))
    CHECK(contains(error_message([&] { toy_run(json_lines{"/dev/full"}, step_counter{&steps}); }),
                   "json_lines: cannot write \"/dev/full\""));
  else
    support::skip("no /dev/full, a file that is always full");
  CHECK(steps == 0);
}
