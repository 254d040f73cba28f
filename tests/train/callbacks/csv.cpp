// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include <cordee/train/callbacks/csv.hpp>
#include <cordee/train/callbacks/json_lines.hpp>

#include "tests/support/foreign_locale.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string contents(const folder& in, const std::string& name) {
  const file_bytes bytes = in.get(name);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("csv: one line per step, with validation columns at the ends of epochs") {
  const folder here;
  toy_run(csv{here.file("log.csv")});
  const std::string text = contents(here, "log.csv");
  CHECK(text.rfind(
            "step,epoch,learning_rate,loss,top1,top5,samples,grad_norm,skipped,seconds,"
            "input_wait_seconds,exposed_exchange_seconds,clip_factor,loss_scale,trust_ratio_min,"
            "trust_ratio_first_quartile,trust_ratio_median,trust_ratio_third_quartile,"
            "trust_ratio_max,validation_loss,validation_top1,consensus_distance\n",
            0) == 0);
  CHECK(count(text, "\n") == 21);
  CHECK(count(text, ",,,\n") == 18);
  CHECK(contains(text, "\n0,0.000000,0.05,"));
  CHECK(contains(text, "\n19,1.900000,0.05,"));
}

TEST_CASE("csv: every line has every column; metrics are means, in the row of their step") {
  const folder here;
  csv log{here.file("log.csv")};
  log.begin({});
  log.step(record_of(0));
  step_record waits = record_of(1);
  waits.input_wait = 0.5;
  log.step(waits);
  log.epoch({record_of(1), {}, metrics{30, 15, 18, 20}, 0.0625});
  log.step(measured(record_of(2)));
  step_record none = record_of(3);
  none.train = {};
  none.skipped = 2;
  log.step(none);
  log.end({});
  const std::string text = contents(here, "log.csv");
  CHECK(text.substr(text.find('\n') + 1) ==
        "0,0.000000,0.25,1.5,0.250000,0.750000,8,0.125,0,1.500,0,,,,,,,,,,,\n"
        "1,0.100000,0.25,1.5,0.250000,0.750000,8,0.125,0,3.000,0.5,,,,,,,,,1.5,0.750000,0.0625\n"
        "2,0.200000,0.25,1.5,0.250000,0.750000,8,0.125,0,4.500,0,0.25,,1024,1,2,3,4,5,,,\n"
        "3,0.300000,0.25,0,0.000000,0.000000,0,0.125,2,6.000,0,,,,,,,,,,,\n");
  CHECK(count(text, ",") == 5 * 21);
}

TEST_CASE("csv: learning rates and losses have nine significant digits") {
  const folder here;
  csv log{here.file("log.csv")};
  log.begin({});
  step_record r = record_of(0);
  r.info.learning_rate = 1.23456789e-7;
  r.train = {987654321.0, 0, 0, 1};
  log.step(r);
  log.end({});
  CHECK(contains(contents(here, "log.csv"), ",1.23456789e-07,987654321,"));
}

TEST_CASE("csv: a second fit with the same object appends, another object begins anew") {
  const folder here;
  csv log{here.file("log.csv")};
  log.begin({});
  log.step(record_of(0));
  log.end({});
  CHECK(count(contents(here, "log.csv"), "\n") == 2);
  log.begin({.first_step = 1});
  log.step(record_of(1));
  log.end({});
  CHECK(count(contents(here, "log.csv"), "\n") == 3);
  CHECK(count(contents(here, "log.csv"), "step,") == 1);
  csv other{here.file("log.csv")};
  other.begin({});
  other.end({});
  CHECK(count(contents(here, "log.csv"), "\n") == 1);
}

TEST_CASE("csv: a resumed run replaces the lines of the steps that it repeats") {
  const folder here;
  const auto run = [&](std::int64_t first, std::int64_t last) {
    csv log{here.file("log.csv")};
    log.begin({.first_step = first});
    for (std::int64_t k = first; k < last; ++k) log.step(record_of(k));
    log.end({});
    return contents(here, "log.csv");
  };
  const std::string whole = run(0, 12);
  std::string cut = whole.substr(0, whole.find("\n10,") + 20);  // as a killed run leaves it
  here.put("log.csv", file_bytes(cut.begin(), cut.end()));
  CHECK(run(9, 12) == whole);
  cut = whole.substr(0, whole.find("\n7,") + 3);  // less than what the checkpoint has
  here.put("log.csv", file_bytes(cut.begin(), cut.end()));
  CHECK(count(run(9, 12), "\n") == 1 + 7 + 3);
  std::filesystem::remove(here.file("log.csv"));
  CHECK(count(run(9, 12), "\n") == 1 + 3);  // with columns
  const std::string other = "step,loss\n0,1\n";
  here.put("log.csv", file_bytes(other.begin(), other.end()));
  CHECK(contains(error_message([&] { run(9, 12); }), "has other columns"));
  CHECK(contents(here, "log.csv") == other);
}

TEST_CASE("csv: a file that cannot be written is an error with its name and the remedy") {
  const std::string text = error_message([] { toy_run(csv{"/nowhere/at/all.csv"}); });
  CHECK(contains(text, "csv: cannot open \"/nowhere/at/all.csv\""));
  CHECK(contains(text, "name a file in a folder that exists"));
  std::int64_t steps = 0;
  if (std::filesystem::exists("/dev/full"))
    CHECK(contains(error_message([&] { toy_run(csv{"/dev/full"}, step_counter{&steps}); }),
                   "csv: cannot write \"/dev/full\""));
  else
    support::skip("no /dev/full, a file that is always full");
  CHECK(steps == 0);
}

TEST_CASE("logs: the files of one run") {
  const folder here;
  const char* const named = std::getenv("CORDEE_LOG_FOLDER");  // tests/scripts/plotted.py
  const std::string in = (named != nullptr ? std::string(named) : here.file(".")) + "/";
  toy_run(csv{in + "log.csv"}, json_lines{in + "log.jsonl"});
  CHECK(std::filesystem::file_size(in + "log.csv") > 20 * 40);
  CHECK(std::filesystem::file_size(in + "log.jsonl") > 20 * 100);
}

TEST_CASE("csv, json_lines: an application's locale changes no byte") {
  const folder here;
  const auto written_to = [&](const std::string& name) {
    csv rows{here.file(name)};
    json_lines objects{here.file(name + "l")};
    const epoch_record e{measured(record_of(1)), {30, 15, 18, 20}, metrics{30, 15, 18, 20}, 0.0625};
    const auto fill = [&](auto& log) {
      log.begin({.steps = 7220, .epochs = 1.5});
      for (const int k : {0, 1234}) log.step(measured(record_of(k)));
      log.epoch(e);
      log.end({e, 2, 3, 8.5});
    };
    fill(rows);
    fill(objects);
    return contents(here, name) + contents(here, name + "l");
  };
  const std::string expected = written_to("first");
  const foreign_locale german;
  CHECK(written_to("second") == expected);
}
