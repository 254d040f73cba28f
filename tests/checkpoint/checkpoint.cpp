// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/callbacks/chrome_trace.hpp>
#include <cordee/train/callbacks/csv.hpp>
#include <cordee/train/describe.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;
namespace fs = std::filesystem;

namespace {

/// The steps of the checkpoints that a run of `epochs` epochs (11 updates in 3) leaves.
std::vector<std::int64_t> steps_of(const std::string& runs, checkpoint_interval every, int keep,
                                   double epochs = 3, int ranks = 2) {
  on_ranks(ranks, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    run.fit(feed, epochs, checkpoint{.folder = runs, .every = every, .keep = keep});
    return 0;
  });
  return run_folder(runs).steps();
}
std::string refusal(checkpoint&& c) {
  labelled<fp32> model;
  trainer run{model, sgd{}, falling, solo{}};
  auto feed = labelled_feed(self_comm{});
  return error_message([&] { run.fit(feed, 1, c); });
}

}  // namespace

TEST_CASE("checkpoint: saves at its interval and at the end, and keeps the newest") {
  using steps = std::vector<std::int64_t>;
  const folder files;
  CHECK(steps_of(files.file("a"), {.steps = 3}, 9) == steps{11, 9, 6, 3});
  CHECK(steps_of(files.file("b"), {.steps = 3}, 2) == steps{11, 9});
  CHECK(steps_of(files.file("c"), {.epochs = 1}, 9) == steps{11, 8, 4});  // 11 of 11 are 3 epochs
  CHECK(steps_of(files.file("d"), {.epochs = 0.5}, 9) == steps{11, 10, 8, 6, 4, 2});
  CHECK(steps_of(files.file("e"), {.minutes = 1e-9}, 20).size() == 11);  // each step takes longer
  CHECK(steps_of(files.file("f"), {.minutes = 1e9}, 9) == steps{11});
  CHECK(steps_of(files.file("g"), {.steps = 5, .epochs = 2}, 9, 3, 1) == steps{11, 10, 8, 5});
  CHECK(fs::read_symlink(files.file("a/latest")) == "step-00000011");
  for (const auto& entry : fs::directory_iterator(files.file("b"))) {
    const std::string name = entry.path().filename().string();
    CHECK_MESSAGE((name == "latest" || !name.ends_with("partial")), name);
  }
}

TEST_CASE("checkpoint: the folder names what was trained, and its checksums hold") {
  const folder files;
  steps_of(files.file("runs"), {.steps = 100}, 1);
  const std::string at = files.file("runs/latest");
  const auto json = nlohmann::json::parse(read_text(at + "/checkpoint.json"));
  CHECK(json["step"] == 11);
  CHECK(json["ranks"] == 2);
  CHECK(json["precision"] == "fp32");
  CHECK(json["cordee"] == std::string(version));
  CHECK(json["optimizer"].get<std::string>().starts_with("sgd"));
  const checksum_table table = parse_checksums(read_text(at + "/checksums"), at);
  CHECK(table.size() == 4);
  for (const auto& [name, sum] : table) CHECK(checksum_of(at + "/" + name) == sum);
}

TEST_CASE("checkpoint: a run that starts again in the folder of a longer one is refused") {
  const folder files;
  steps_of(files.file("runs"), {.steps = 100}, 1);
  CHECK(contains_all(error_message([&] { steps_of(files.file("runs"), {.steps = 100}, 1); }),
                     {"has a checkpoint of step 11, this run is at step 0", "resume("}));
}

TEST_CASE("checkpoint: a refused start changes no file of any callback, whatever their order") {
  const folder files;
  const std::string runs = files.file("runs");
  const auto begin = [&](bool first, int ranks) {
    return error_message([&] {
      on_ranks(ranks, [&](threads comm) {
        labelled<fp32> model;
        trainer run{model, sgd{}, falling, ring{comm}};
        auto feed = labelled_feed(comm);
        csv table{files.file("log.csv")};
        chrome_trace trace{files.file("trace.json")};
        checkpoint saver{.folder = runs, .resumed_by = "--resume"};
        if (first)
          run.fit(feed, 3, saver, table, trace);
        else
          run.fit(feed, 3, table, trace, saver);
        return 0;
      });
    });
  };
  CHECK(begin(false, 2).empty());
  const file_bytes table = files.get("log.csv"), trace = files.get("trace.json");
  CHECK(table.size() > 500);
  const auto is_refused = [&](std::initializer_list<std::string> parts) {
    for (const bool first : {false, true}) {
      CHECK(contains_all(begin(first, 2), parts));
      CHECK(files.get("log.csv") == table);
      CHECK(files.get("trace.json") == trace);
    }
  };
  is_refused(
      {"has a checkpoint of step 11, this run is at step 0: continue that run by --resume,"});
  {
    const folder_lock of_a_running_run(runs);
    is_refused({"checkpoint: process ", " saves into "});
  }
  fs::rename(runs + "/step-00000011", runs + "/step-00000011.damaged");
  for (const std::int64_t step : run_folder(runs).steps()) run_folder(runs).set_damaged_aside(step);
  is_refused({"has damaged checkpoints alone"});
}

TEST_CASE("checkpoint: after a signal all ranks save the same step, and fit returns") {
  const folder files;
  struct signal_sender {
    void step(const step_record& r) {
      if (r.info.step == 4) ::raise(SIGINT);
    }
  };
  const auto by_rank = on_ranks(3, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    const run_summary s = run.fit(feed, 3, signal_sender{},
                                  checkpoint{.folder = files.file("runs"), .every = {.steps = 9}});
    CHECK((s.stopped && s.steps == 5));
    return run.steps_taken();
  });
  for (const std::int64_t steps : by_rank) CHECK(steps == 5);
  CHECK(run_folder(files.file("runs")).steps() == std::vector<std::int64_t>{5});
}

TEST_CASE("checkpoint: two runs do not save into one folder at a time") {
  const folder files;
  struct second_run {
    const folder* files;
    std::string* message;
    void step(const step_record&) {
      if (message->empty()) *message = refusal(checkpoint{.folder = files->file("runs")});
    }
  };
  std::string message;
  labelled<fp32> model;
  trainer run{model, sgd{}, falling, solo{}};
  auto feed = labelled_feed(self_comm{});
  run.fit(feed, 1, second_run{&files, &message}, checkpoint{.folder = files.file("runs")});
  CHECK(contains_all(message, {"checkpoint: process ", " saves into ", "name another folder"}));
}

TEST_CASE("checkpoint: a folder that vanishes is an error on every rank, and the run ends") {
  const folder files;
  struct remover {
    std::string path;
    void step(const step_record& r) {
      if (r.info.step != 3) return;
      fs::remove_all(path);
      std::ofstream(path) << "a file";
    }
  };
  const std::string message = error_message([&] {
    on_ranks(3, [&](threads comm) {
      labelled<fp32> model;
      trainer run{model, sgd{}, falling, ring{comm}};
      auto feed = labelled_feed(comm);
      run.fit(feed, 3, remover{files.file("runs")},
              checkpoint{.folder = files.file("runs"), .every = {.steps = 5}});
      return 0;
    });
  });
  CHECK(contains_all(message, {"checkpoint: cannot create", "step-00000005.partial"}));
}

TEST_CASE("checkpoint: not async, the same checkpoints") {
  const folder files;
  on_ranks(2, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    run.fit(
        feed, 3,
        checkpoint{.folder = files.file("a"), .every = {.steps = 3}, .keep = 2, .async = false});
    return 0;
  });
  CHECK(run_folder(files.file("a")).steps() == std::vector<std::int64_t>{11, 9});
}

TEST_CASE("checkpoint: describe states when it saves, and the memory of the copy on each rank") {
  const auto lines = on_ranks(2, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    const checkpoint beside{.folder = "a", .every = {.steps = 5, .minutes = 30, .epochs = 0.5}};
    const checkpoint waiting{.folder = "b", .async = false};
    return describe(run, feed, 3, csv{"log.csv"}, beside, waiting);
  });
  // Weights and momenta are 193 numbers from the first segment to the end of the last, which rank 0
  // writes for all; `seen` is one number of each rank.
  CHECK(
      contains_all(lines[0], {"checkpoints     a, the newest 3, every 5 steps, every 30 minutes, "
                              "every 0.5 epochs; 1,548 bytes of host memory for the copy",
                              "\ncheckpoints     b, the newest 3, every 1 epochs; steps wait while "
                              "it is written\n"}));
  CHECK(contains(lines[1], " 4 bytes of host memory for the copy"));
}

TEST_CASE("checkpoint: settings without meaning are refused before the first step") {
  const folder files;
  CHECK(contains_all(refusal(checkpoint{}), {".folder is empty"}));
  CHECK(contains_all(refusal(checkpoint{.folder = files.file("x"), .keep = 0}), {".keep"}));
  for (const checkpoint_interval every :
       {checkpoint_interval{}, checkpoint_interval{.steps = -1, .epochs = 1},
        checkpoint_interval{.minutes = std::nan("")}, checkpoint_interval{.epochs = HUGE_VAL}})
    CHECK(contains_all(refusal(checkpoint{.folder = files.file("x"), .every = every}),
                       {"one of .every.steps, .minutes and .epochs"}));
  CHECK_FALSE(fs::exists(files.file("x")));
}
