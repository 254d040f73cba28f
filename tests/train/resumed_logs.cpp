// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// All logs of a run that is killed after 15 of 20 updates, in the middle of a line or a record, and
// goes on from update 12; tests/scripts/resumed_logs.py reads them with others' readers.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/chrome_trace.hpp>
#include <cordee/train/callbacks/csv.hpp>
#include <cordee/train/callbacks/json_lines.hpp>
#include <cordee/train/callbacks/mllog.hpp>
#include <cordee/train/callbacks/tensorboard.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

struct killed_run {
  std::int64_t at;
  template <class Run>
  bool step_on_all_ranks(Run& run, double) {
    if (run.steps_taken() == at) throw error("killed");
    return false;
  }
};

struct all_logs {
  explicit all_logs(const std::string& path)
      : table(path + "/log.csv"),
        lines(path + "/log.jsonl"),
        mlperf(path + "/mllog.log"),
        events(path + "/tensorboard"),
        trace{path + "/trace.json"} {}
  csv table;
  json_lines lines;
  mllog mlperf;
  tensorboard events;
  chrome_trace trace;
};

/// From update `first` on, which is trained up to without logs.
void logged_run(all_logs& logs, std::int64_t first, std::int64_t killed_at) {
  quadratic<fp64> model;
  trainer run{model, lars{.trust_coefficient = 0.02}, constant{0.05}, solo{}};
  toy_loader feed;
  run.fit(feed, static_cast<double>(first) / 10);
  run.fit(feed, 2, validation{toy_data{}}, logs.table, logs.lines, logs.mlperf, logs.events,
          logs.trace, killed_run{killed_at});
}
void logged_run(const std::string& path, std::int64_t first, std::int64_t killed_at) {
  all_logs logs(path);
  logged_run(logs, first, killed_at);
}

void check_table(const std::string& path) {
  std::ifstream table(path + "/log.csv");
  std::string line;
  std::getline(table, line);
  for (std::int64_t k = 0; k < 20; ++k) {
    std::getline(table, line);
    CHECK(line.starts_with(concat(k, ",")));
  }
  CHECK_FALSE(std::getline(table, line));
}
/// How often the text stands in the files of a folder and those below.
int occurrences(const std::string& path, const std::string& text) {
  int n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = 0; (at = all.find(text, at)) != all.npos; ++at) ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("logs: the files of a run that is killed and goes on have each update once") {
  const folder here;
  const char* const named = std::getenv("CORDEE_RESUMED_LOGS");
  const std::string path = named != nullptr ? named : here.file("run");
  std::filesystem::create_directories(path);
  CHECK(contains(error_message([&] { logged_run(path, 0, 15); }), "killed"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    if (entry.is_regular_file() && entry.path().filename() != "trace.json")
      std::ofstream(entry.path(), std::ios::app) << "{\"half";
  logged_run(path, 12, -1);
  check_table(path);
}

TEST_CASE("logs: a run that throws and goes on with the same objects has each update once") {
  const folder here;
  const std::string path = here.file("run");
  std::filesystem::create_directories(path);
  all_logs logs(path);
  CHECK(contains(error_message([&] { logged_run(logs, 0, 15); }), "killed"));
  logged_run(logs, 12, -1);
  check_table(path);
  for (const int k : {0, 11, 12, 14, 19})
    CHECK(occurrences(path, concat("{\"event\":\"step\",\"step\":", k, ",")) == 1);
  CHECK(occurrences(path, "\"run_start\"") == 1);
  CHECK(occurrences(path, "\"run_stop\"") == 1);
  CHECK(occurrences(path, "\"epoch_stop\"") == 2);
  CHECK(occurrences(path + "/tensorboard", "train/learning_rate") == 20);
}
