// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that is resumed equals the uninterrupted one, to the bit: weights, slots, losses.
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/compressed.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/evaluate.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

namespace {

/// All that a run shows after its last step.
struct ending {
  std::vector<double> numbers;  // of all planes
  std::vector<double> records;  // on rank 0: of each step, and of the ends of epochs

  friend bool operator==(const ending& a, const ending& b) {
    return same_bits(a.numbers, b.numbers) && same_bits(a.records, b.records);
  }
};

struct recorder {
  std::vector<double>* records;
  std::int64_t from = 0;  // the first step of interest

  void step(const step_record& r) {
    if (r.info.step < from) return;
    records->insert(
        records->end(),
        {static_cast<double>(r.info.step), r.info.epoch, r.info.learning_rate, r.train.loss,
         static_cast<double>(r.train.count), r.grad_norm, static_cast<double>(r.skipped)});
  }
  void epoch(const epoch_record& e) {
    if (e.last.info.step < from) return;
    records->insert(records->end(), {e.train.loss, static_cast<double>(e.train.count)});
  }
};

/// A trainer with a model of its own.
template <class M, class Run, class... Arguments>
auto owned_run(const Arguments&... arguments) {
  struct owner {
    M model;
    Run run;
    explicit owner(const Arguments&... all) : run(model, all...) {}
  };
  const auto both = std::make_shared<owner>(arguments...);
  return std::shared_ptr<Run>(both, &both->run);
}

constexpr std::int64_t stopped_at = 6;  // of 11 updates, in the middle of the second epoch
constexpr double until = stopped_at * 6 / 22.0, whole = 3;

template <class Run>
ending end_of(Run& run, std::vector<double> records) {
  ending e{{}, std::move(records)};
  for (const auto& p : saved_planes(run))
    for (const segment& s : p.segments)
      for (std::size_t i = 0; i < s.size; ++i)
        e.numbers.push_back(static_cast<double>(p.plane[s.offset + i]));
  return e;
}

/// Trains make(seed) without interruption, and in two parts with a checkpoint between them.
template <class Make, class MakeFeed>
void resumes_to_the_bit(int ranks, const Make& make, const MakeFeed& make_feed) {
  CAPTURE(ranks);
  const folder files;
  const std::string runs = files.file("runs");
  const auto uninterrupted = on_ranks(ranks, [&](threads comm) {
    std::vector<double> records;
    const auto run = make(comm, 0u);
    auto feed = make_feed(comm);
    run->fit(feed, whole, recorder{&records, stopped_at});
    return end_of(*run, records);
  });
  on_ranks(ranks, [&](threads comm) {
    const auto run = make(comm, 0u);
    auto feed = make_feed(comm);
    CHECK_FALSE(run->resume(runs));
    std::vector<double> records;
    run->fit(feed, until, recorder{&records}, checkpoint{.folder = runs, .every = {.steps = 4}});
    CHECK(run->steps_taken() == stopped_at);
    return 0;
  });
  CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{6, 4});
  const auto resumed = on_ranks(ranks, [&](threads comm) {
    std::vector<double> records;
    const auto run = make(comm, 1u);
    auto feed = make_feed(comm);
    CHECK(run->resume(runs));
    CHECK(run->steps_taken() == stopped_at);
    run->fit(feed, whole, recorder{&records, stopped_at},
             checkpoint{.folder = runs, .every = {.epochs = 1}});
    return end_of(*run, records);
  });
  for (std::size_t r = 0; r < resumed.size(); ++r) {
    CHECK(resumed[r].numbers.size() > 9);
    CHECK(resumed[r] == uninterrupted[r]);
  }
  CHECK(uninterrupted[0].records.size() == 5 * 7 + 2 * 2);
}

/// The toy model, with 1 and 3 ranks.
template <class P, class O, class S, class MakeReducer>
void resumes(const char* name, const O& optimizer, const S& schedule,
             const MakeReducer& make_reducer) {
  INFO(name);
  for (const int ranks : {1, 3}) {
    const auto make = [&](threads comm, unsigned) {
      using run_type = trainer<labelled<P>, O, S, decltype(make_reducer(comm))>;
      return owned_run<labelled<P>, run_type>(
          optimizer, schedule, make_reducer(comm),
          trainer_options{.bucket_bytes = 512, .check_stability = false});
    };
    resumes_to_the_bit(ranks, make, [](threads comm) { return labelled_feed(comm); });
  }
}

/// Halves its learning rate when the loss has risen.
struct cautious {
  std::array<double, 2> numbers{1, 1e300};  // factor, last loss
  double operator()(double) const { return 0.1 * numbers[0]; }
  void observe(double, double loss) {
    numbers = {loss > numbers[1] ? numbers[0] / 2 : numbers[0], loss};
  }
  std::span<double> state() { return numbers; }
};

constexpr auto over_ring = [](threads comm) { return ring{comm}; };

}  // namespace

TEST_CASE("resume: exact reducers, micro-batches, batches across epochs, an adaptive schedule") {
  resumes<fp32>("lars", lars{.trust_coefficient = 0.02}, warmup{0.5, cautious{}}, over_ring);
  resumes<fp64>("adamw in fp64", adamw{}, falling, over_ring);
}
TEST_CASE("resume: loss scaling, error feedback, local steps, gossip") {
  resumes<fp16>("sgd in fp16", sgd{.momentum = 0.9}, falling, over_ring);
  resumes<fp32>("compressed", sgd{.momentum = 0.9}, falling, [](threads comm) {
    return compressed{ring{comm}, int8{}};
  });
  resumes<fp32>("local steps", local_steps{sgd{.momentum = 0.9}, 4}, falling, over_ring);
  resumes<fp32>("gossip", decentlam{.momentum = 0.5}, falling, [](threads comm) {
    return gossip{comm, topologies::one_peer{}};
  });
}
TEST_CASE("resume: a network in int8, whose ranges and batch norms are statistics") {
  using net = resnet<8, int8, cpu, small>;
  const auto make = [](threads comm, unsigned seed) {
    using run_type = trainer<net, sgd, decltype(steady), ring<threads>>;
    return owned_run<net, run_type>(sgd{}, steady, ring{comm}, trainer_options{.seed = seed});
  };
  const auto make_feed = [](threads comm) {
    return loader{synthetic{.extent = {1, 16, 16}, .classes = 4, .samples = 22, .seed = 3},
                  comm,
                  {.global_batch = 6, .seed = 5}};
  };
  for (const int ranks : {1, 3}) resumes_to_the_bit(ranks, make, make_feed);
}

namespace {

/// A folder with checkpoints of steps 4, 8 and 11 of a run on two ranks.
void train_into(const std::string& runs, int ranks = 2) {
  on_ranks(ranks, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    run.fit(feed, whole, checkpoint{.folder = runs, .every = {.steps = 4}});
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
      for (const int rank : {0, 1}) read_whole(at, rank, 2);
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
  std::filesystem::remove(runs + "/step-00000004/checksums");
  CHECK(contains(error_message([&] { resumed_step(runs); }), "resume: all 2 checkpoints in"));
  CHECK(resumed_step(files.file("absent")) == -1);
}

TEST_CASE("resume: another network, optimizer, precision, number of ranks is refused by name") {
  const folder files;
  const std::string runs = files.file("runs");
  train_into(runs);
  CHECK(contains_all(refusal<wide>(runs, sgd{}), {"\"b2\" is F32 [1], this network's is F32 [2]"}));
  CHECK(contains_all(refusal<labelled<fp32>>(runs, sgd{.momentum = 0.8}),
                     {"its optimizer is", "0.9", "this run's is", "0.8"}));
  CHECK(contains_all(refusal<labelled<fp32>>(runs, adamw{}), {"its optimizer is sgd", "adamw"}));
  CHECK(contains_all(refusal<labelled<fp64>>(runs, sgd{}),
                     {"its precision is fp32, this run's is fp64"}));
  CHECK(contains_all(refusal<labelled<fp32>>(runs, sgd{}, 3), {"its ranks is 2, this run's is 3"}));
  CHECK(contains_all(refusal<labelled<fp32>>(runs, local_steps{sgd{}, 2}), {"its optimizer is"}));
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

TEST_CASE(
    "resume: the loader that goes on must have the data set's size, batch and seed of before") {
  const folder files;
  train_into(files.file("runs"));
  const auto message = [&](const loader_options& options) {
    return error_message([&] {
      on_ranks(2, [&](threads comm) {
        labelled<fp32> model;
        trainer run{model, sgd{}, falling, ring{comm}};
        run.resume(files.file("runs"));
        loader feed{synthetic{.extent = {1, 4, 4}, .classes = 4, .samples = 22, .seed = 3}, comm,
                    options};
        run.fit(feed, 4);
        return 0;
      });
    });
  };
  CHECK(contains(message({.global_batch = 8, .seed = 5}),
                 "had 22 samples and a global batch of 6, this loader has 22 and 8"));
  CHECK(contains(message({.global_batch = 6, .seed = 6}),
                 "had a loader with seed 5, this loader has 6"));
}
