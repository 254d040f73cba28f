// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// All logs of a run that is killed after 15 of 20 updates, in the middle of a line or a record, and
// goes on from update 12; tests/scripts/resumed_logs.py reads them with others' readers.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

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

/// From update `first` on, which is trained up to without logs.
void logged_run(const std::string& path, std::int64_t first, std::int64_t killed_at) {
  quadratic<fp64> model;
  trainer run{model, lars{.trust_coefficient = 0.02}, [](double) { return 0.05; }, solo{}};
  toy_loader feed;
  run.fit(feed, static_cast<double>(first) / 10);
  run.fit(feed, 2, validation{toy_data{}}, csv{path + "/log.csv"}, json_lines{path + "/log.jsonl"},
          mllog{path + "/mllog.log"}, tensorboard{path + "/tensorboard"},
          chrome_trace{path + "/trace.json"}, killed_run{killed_at});
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
  std::ifstream table(path + "/log.csv");
  std::string line;
  std::getline(table, line);
  for (std::int64_t k = 0; k < 20; ++k) {
    std::getline(table, line);
    CHECK(line.starts_with(concat(k, ",")));
  }
  CHECK_FALSE(std::getline(table, line));
}
