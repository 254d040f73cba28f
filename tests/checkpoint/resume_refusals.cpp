// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which checkpoints are refused, or set aside:
// damaged ones, those of other runs, of a newer format.
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

namespace {

/// A folder with checkpoints of steps 4, 8 and 11 of a run on two ranks.
void train_into(const std::string& runs, int ranks = 2) {
  on_ranks(ranks, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    run.fit(feed, 3, checkpoint{.folder = runs, .every = {.steps = 4}});
    return 0;
  });
}
/// The steps of the checkpoint that the ranks go on from, -1 for none.
std::int64_t resumed_step(const std::string& runs) {
  const auto by_rank = on_ranks(2, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    return run.resume(runs) ? run.steps_taken() : std::int64_t{-1};
  });
  CHECK(by_rank[0] == by_rank[1]);
  return by_rank[0];
}
template <class Model, class O>
std::string refusal(const std::string& runs, const O& optimizer, int ranks = 2) {
  return error_message([&] {
    on_ranks(ranks, [&](threads comm) {
      Model model;
      trainer run{model, optimizer, falling, ring{comm}};
      run.resume(runs);
      return 0;
    });
  });
}
constexpr auto wide_table = [] {
  auto table = t4_table;
  table[3].size = 2;
  return table;
}();
struct wide : labelled<fp32> {
  static constexpr std::span<const segment> segments() { return wide_table; }
};

void flip(const std::string& path, std::size_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(byte));
  const auto c = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(c);
}

}  // namespace

TEST_CASE("resume: every flipped bit and every truncation of every file is noticed") {
  const folder files;
  train_into(files.file("runs"));
  const std::string at = files.file("runs/latest");
  const auto is_whole = [&] {
    try {
      for (const int rank : {0, 1}) read_whole(at, 11, rank, 2);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  REQUIRE(is_whole());
  for (const char* name : {"checkpoint.json", "checksums", "common.safetensors",
                           "rank-0.safetensors", "rank-1.safetensors"}) {
    const std::string path = at + "/" + name;
    const std::size_t size = std::filesystem::file_size(path);
    std::size_t unnoticed = 0;
    for (std::size_t byte = 0; byte < size; byte += size < 600 ? 1 : 5) {
      const int bit = static_cast<int>(byte % 8);
      flip(path, byte, bit);
      unnoticed += is_whole() ? 1 : 0;
      flip(path, byte, bit);
    }
    CHECK_MESSAGE(unnoticed == 0, name);
    REQUIRE(is_whole());
    const file_bytes bytes = files.get(concat("runs/latest/", name));
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, size / 2, size - 1}) {
      std::filesystem::resize_file(path, length);
      CHECK_MESSAGE(!is_whole(), name);
      files.put(concat("runs/latest/", name), bytes);
    }
    REQUIRE(is_whole());
    std::filesystem::remove(path);
    CHECK_MESSAGE(!is_whole(), name);
    files.put(concat("runs/latest/", name), bytes);
  }
}

TEST_CASE("resume: falls back on every rank when one rank's file is damaged; throws if all are") {
  const folder files;
  const std::string runs = files.file("runs");
  train_into(runs);
  CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{11, 8, 4});
  flip(runs + "/step-00000011/rank-1.safetensors", 300, 3);
  CHECK(resumed_step(runs) == 8);
  CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{8, 4});
  CHECK(std::filesystem::exists(runs + "/step-00000011.damaged"));
  flip(runs + "/step-00000008/common.safetensors", 300, 3);
  flip(runs + "/step-00000004/checksums", 30, 3);
  CHECK(contains(error_message([&] { resumed_step(runs); }), "resume: all 2 checkpoints in"));
  // A second start does not take the folder for an empty one, and loses nothing.
  const auto aside = [&](int step) { return run_folder(runs).final_path(step) + ".damaged"; };
  CHECK(contains_all(error_message([&] { resumed_step(runs); }),
                     {"has damaged checkpoints alone", "restore the folder from a copy"}));
  CHECK(contains_all(error_message([&] { train_into(runs); }),
                     {"has damaged checkpoints alone", "restore the folder from a copy"}));
  for (const int step : {4, 8, 11}) CHECK(std::filesystem::exists(aside(step)));
  CHECK(resumed_step(files.file("absent")) == -1);
}

TEST_CASE("resume: another network, type of optimizer or precision is refused by name") {
  const folder files;
  const std::string runs = files.file("runs");
  train_into(runs);
  CHECK(contains_all(refusal<wide>(runs, sgd{}), {"\"b2\" is F32 [1], this network's is F32 [2]"}));
  CHECK(contains_all(refusal<wide>(runs, sgd{}, 3),
                     {"\"b2\" is F32 [1], this network's is F32 [2]"}));
  CHECK(contains_all(refusal<labelled<fp32>>(runs, adamw{}), {"its optimizer is sgd", "adamw"}));
  CHECK(contains_all(refusal<labelled<fp64>>(runs, sgd{}),
                     {"its precision is fp32, this run's is fp64"}));
  CHECK(contains_all(refusal<labelled<fp32>>(runs, local_steps{sgd{}, 2}), {"its optimizer is"}));
  CHECK(refusal<labelled<fp32>>(runs, sgd{.momentum = 0.8}).empty());  // an option
  CHECK(refusal<labelled<fp32>>(runs, sgd{}, 3).empty());
}

TEST_CASE("resume: one damaged file of another number of ranks is noticed by all") {
  const folder files;
  const std::string runs = files.file("runs");
  train_into(runs, 3);
  const std::string last = runs + "/step-00000011/rank-2.safetensors";
  flip(last, std::filesystem::file_size(last) - 1, 3);  // among the numbers, which rank 0 reads
  CHECK(resumed_step(runs) == 8);
  flip(runs + "/step-00000008/rank-0.safetensors", 300, 3);
  CHECK(resumed_step(runs) == 4);
}

TEST_CASE("resume: a rank that cannot read ends the run by name, and no checkpoint is renamed") {
  const folder files;
  const std::string runs = files.file("runs"), newest = runs + "/step-00000011";
  train_into(runs);
  // The ranks' folders differ where a mount is late on one host.
  const auto refused = [&](const std::string& first, const std::string& second) {
    return error_message([&] {
      on_ranks(2, [&](threads comm) {
        labelled<fp32> model;
        trainer run{model, sgd{}, falling, ring{comm}};
        run.resume(comm.rank() == 0 ? first : second);
        return 0;
      });
    });
  };
  const std::string absent = files.file("absent");
  CHECK(contains_all(refused(runs, absent), {"resume: rank 1 on ", "cannot read " + absent,
                                             "No such file", "Nothing is renamed"}));
  CHECK(contains_all(refused(absent, runs),
                     {"resume: rank 0 on ", "sees no checkpoint in " + absent}));
  CHECK(contains_all(refused(files.put("file", {1}), runs), {"rank 0 on ", "cannot list "}));
  {  // as after `ulimit -n`
    ::rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const ::rlimit none{0, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const std::string message = refused(runs, runs);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(contains_all(message, {"rank 0 on ", "cannot list " + runs, "Too many open files"}));
  }
  const std::string own = newest + "/rank-1.safetensors";
  std::filesystem::rename(own, own + ".away");
  CHECK(contains_all(refused(runs, runs), {"rank 1 on ", own, "move it elsewhere"}));
  REQUIRE(::mkfifo(own.c_str(), 0600) == 0);  // nobody writes: to open it would block
  CHECK(contains_all(refused(runs, runs), {"rank 1 on ", own, "a pipe or a device"}));
  CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{11, 8, 4});
  std::filesystem::rename(own + ".away", own);
  CHECK(refused(runs, runs).empty());
}

TEST_CASE("resume: a checkpoint under another step's name is damaged") {
  const folder files;
  const std::string runs = files.file("runs");
  train_into(runs);
  std::filesystem::rename(runs + "/step-00000011", runs + "/step-00000012");
  CHECK(resumed_step(runs) == 8);
  CHECK(std::filesystem::exists(runs + "/step-00000012.damaged"));
}

TEST_CASE("resume: steps in a row that were skipped before the checkpoint still count") {
  // Steps 3 and 4 of the first run and 5 and 6 of the second: the fourth ends it.
  const folder files;
  const auto message = error_message([&] {
    on_ranks(2, [&](threads comm) {
      for (const bool second : {false, true}) {
        labelled<fp32> model;
        // `step` of the model counts micro-batches, two an update
        for (const std::int64_t k : {6, 8, 10, 12}) model.poisons.push_back({k, 1});
        model.step = second ? 10 : 0;
        trainer run{model, sgd{}, falling, ring{comm}, {.max_nonfinite_steps = 4}};
        auto feed = labelled_feed(comm);
        CHECK(run.resume(files.file("runs")) == second);
        CHECK(run.steps_taken() == (second ? 5 : 0));
        run.fit(feed, second ? 3 : 5 * 6 / 22.0, checkpoint{.folder = files.file("runs")});
        CHECK_FALSE(second);
      }
      return 0;
    });
  });
  CHECK(contains_all(message, {"4 steps in a row had a gradient with a NaN", "(step 6"}));
}

TEST_CASE("resume: a checkpoint of a newer format is refused with the version that wrote it") {
  const folder files;
  train_into(files.file("runs"));
  for (const std::int64_t step : {11, 8, 4}) {
    const std::string at = run_folder(files.file("runs")).final_path(step);
    auto json = nlohmann::json::parse(read_text(at + "/checkpoint.json"));
    json["format"] = format + 1;
    json["cordee"] = "9.9.9";
    const std::string text = json.dump();
    const std::array pieces{std::as_bytes(std::span(text))};
    detail::io::write_file(at + "/checkpoint.json", pieces);
    checksum_table table = parse_checksums(read_text(at + "/checksums"), at);
    table["checkpoint.json"] = checksum_of(at + "/checkpoint.json");
    const std::string sums = checksum_text(table);
    const std::array lines{std::as_bytes(std::span(sums))};
    detail::io::write_file(at + "/checksums", lines);
  }
  CHECK(contains_all(refusal<labelled<fp32>>(files.file("runs"), sgd{}),
                     {"was written by cordee 9.9.9", "use that version"}));
}

TEST_CASE("resume: the loader that goes on continues the samples, or is refused") {
  const folder files;
  train_into(files.file("runs"));
  // What the loader is refused for, or the update at which it goes on.
  const auto next = [&](const loader_options& options) {
    std::string update;
    const std::string message = error_message([&] {
      on_ranks(2, [&](threads comm) {
        labelled<fp32> model;
        trainer run{model, sgd{}, falling, ring{comm}};
        run.resume(files.file("runs"));
        loader feed{synthetic{.extent = {1, 4, 4}, .classes = 4, .samples = 22, .seed = 3}, comm,
                    options};
        run.fit(feed, 3);  // of which all samples have been trained on
        if (comm.rank() == 0) update = concat(feed.step());
        return 0;
      });
    });
    return message.empty() ? update : message;
  };
  CHECK(next({.global_batch = 6, .seed = 5}) == "11");
  CHECK(next({.global_batch = 11, .seed = 5}) == "6");
  CHECK(contains(next({.global_batch = 8, .seed = 5}),
                 "is behind 11 updates of a global batch of 6, and no update of 8 begins there: "
                 "continue with .global_batch = 6"));
  CHECK(contains(next({.global_batch = 6, .seed = 6}),
                 "had a loader with seed 5, this loader has 6"));
  CHECK(contains(next({.global_batch = 6, .seed = 5, .last_batch = last_batch::drop}),
                 "had a loader with last_batch::carry, this loader has last_batch::drop"));
  CHECK(contains(next({.global_batch = 6, .seed = 5, .last_batch = last_batch::pad}),
                 "this loader has last_batch::pad"));
}
