// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// console, csv and describe.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/train/console.hpp>
#include <cordee/train/csv.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto steady = [](double) { return 0.05; };

std::string fresh_path(const char* name) {
  const auto path = std::filesystem::temp_directory_path() / text("cordee-", getpid(), "-", name);
  std::filesystem::remove(path);
  return path.string();
}
std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
template <class... Listeners>
void train(Listeners&&... listeners) {
  quadratic<fp64> model;
  model.poisons = {{3, 0}};
  trainer run{model, lars{.trust = 0.02}, steady, solo{}};
  toy_feed feed;
  run.fit(feed, 2, held_out{toy_data{}}, listeners...);
}

}  // namespace

TEST_CASE("csv: one line a step, held-out columns at the ends of epochs") {
  const std::string path = fresh_path("log.csv");
  train(csv{path});
  const std::string said = contents(path);
  CHECK(said.rfind("step,epoch,rate,loss,top1,top5,samples,grad_norm,skipped,seconds,held_out_loss,"
                   "held_out_top1\n",
                   0) == 0);
  CHECK(count(said, "\n") == 21);
  CHECK(count(said, ",,\n") == 18);
  CHECK(contains(said, "\n0,0.000000,0.05,"));
  CHECK(contains(said, "\n19,1.900000,0.05,"));
  std::filesystem::remove(path);
}

TEST_CASE("csv: a file that cannot be written ends the run with its name and the remedy") {
  const std::string said = complaint([] { train(csv{"/nowhere/at/all.csv"}); });
  CHECK(contains(said, "csv: cannot open \"/nowhere/at/all.csv\""));
  CHECK(contains(said, "name a file in a folder that exists"));
  if (std::filesystem::exists("/dev/full"))
    CHECK(contains(complaint([] { train(csv{"/dev/full"}); }), "csv: cannot write \"/dev/full\""));
}

TEST_CASE("console: without a terminal, lines; with a bar, carriage returns") {
  for (const bool bar : {false, true}) {
    const std::string path = fresh_path("console.txt");
    std::FILE* out = std::fopen(path.c_str(), "w");
    REQUIRE(out != nullptr);
    train(console{{.seconds = 0, .bar = bar, .out = out}});
    std::fclose(out);
    const std::string said = contents(path);
    CHECK(contains(said, "global batch 1 = 1 per rank x 1 ranks x 1 accumulated; 20 steps"));
    CHECK(contains(said, "step 20/20"));
    CHECK(contains(said, "skips 1"));
    CHECK(contains(said, "epoch 2/2"));
    CHECK(contains(said, "held out: loss"));
    CHECK(contains(said, "of 21"));
    CHECK((count(said, "\r") > 0) == bar);
    CHECK(contains(said, bar ? "[====================]" : "step 1/20"));
    std::filesystem::remove(path);
  }
}

TEST_CASE("console: quiet for as long as it was told to be") {
  const std::string path = fresh_path("quiet.txt");
  std::FILE* out = std::fopen(path.c_str(), "w");
  REQUIRE(out != nullptr);
  train(console{{.seconds = 1000, .bar = false, .out = out}});
  std::fclose(out);
  CHECK(count(contents(path), "step ") == 0);
  CHECK(count(contents(path), "\nepoch ") == 2);
  std::filesystem::remove(path);
}

TEST_CASE("describe says what would happen and trains nothing") {
  quadratic<fp32> model;
  trainer run{model, lars{.trust = 0.02}, steady, solo{}};
  toy_feed feed{.ranks_count = 1, .micro = 3};
  const auto before = numbers(run.weights(), 0);
  const std::string said = describe(run, feed, 2);
  for (const char* part : {"9 parameters in 4 tensors", "fp32 on cpu",
                           "3 samples an update = 1 per rank x 1 ranks x 3",
                           "20 updates, 2 epochs of 30 samples", "lars, trust 0.02",
                           "0.05 at epoch 0", "the optimizer needs exact, the reducer offers exact",
                           "1,024 bytes in 1 buckets", "20 in a row end the run"})
    CHECK_MESSAGE(contains(said, part), part, " in\n", said);
  CHECK(numbers(run.weights(), 0) == before);
  CHECK(run.steps_taken() == 0);
  CHECK(feed.step() == 0);
}
