// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/best.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/foreign_locale.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant steady{0.05};
constexpr auto by_loss = validation_measure::loss;

epoch_record validated(double loss, double epoch = 0) {
  epoch_record e;
  e.last.info.epoch = epoch;
  e.validation = metrics{.loss = 4 * loss, .top1 = 1, .count = 4};
  return e;
}

std::vector<double> weights_in(const std::string& path) {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  run.load(path);
  return numbers(run.weights(), 0);
}

}  // namespace

TEST_CASE("best: the file has the weights of the best epoch, on any number of ranks") {
  for (const int ranks : {1, 2, 3}) {
    const folder files;
    const std::string path = files.file("best.safetensors");
    const auto of_ranks = on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model;
      trainer run{model, sgd{}, steady, ring{comm}};
      toy_loader feed{.rank_count = ranks};
      best keeps{path, by_loss};
      keeps.check_on_all_ranks(run, 0.0);
      std::vector<double> kept;
      for (const double loss : {3.0, 2.0, 2.5, std::numeric_limits<double>::quiet_NaN(), 2.0}) {
        run.fit(feed, feed.epoch(feed.step()) + 1);
        if (loss == 2.0 && kept.empty()) kept = numbers(run.weights(), 0);
        CHECK_FALSE(keeps.epoch_on_all_ranks(run, validated(loss)));
      }
      CHECK(numbers(run.weights(), 0) != kept);  // training went on
      return kept;
    });
    for (const auto& kept : of_ranks) CHECK(weights_in(path) == kept);
    CHECK(files.files() == 1);
  }
}

TEST_CASE("best: a resumed run replaces the file by a better one only, a new run in any case") {
  const folder files;
  const std::string path = files.file("best.safetensors");
  const foreign_locale german;  // in which the file has points, too
  on_ranks(2, [&](threads comm) {
    quadratic<fp64> model;
    trainer run{model, sgd{}, steady, ring{comm}};
    best first{path, by_loss};
    first.check_on_all_ranks(run, 0.0);
    first.epoch_on_all_ranks(run, validated(0.1, 7.5));
    if (comm.rank() == 0) {
      const auto file = detail::io::tensor_file::open(path);
      for (const auto& [name, value] : file.metadata())
        if (name == "validation_loss") CHECK(value == "0.1");
    }
    best resumed{path, by_loss};
    resumed.check_on_all_ranks(run, 8.0);
    CHECK(resumed.kept.value == 0.1);  // to the bit
    CHECK(resumed.kept.epoch == 8);
    resumed.epoch_on_all_ranks(run, validated(0.2, 8.5));
    CHECK(resumed.kept.epoch == 8);
    resumed.epoch_on_all_ranks(run, validated(0.05, 9.5));
    CHECK(resumed.kept.epoch == 10);
    best other{path};  // by accuracy, of which the file says nothing
    other.check_on_all_ranks(run, 10.0);
    CHECK_FALSE(other.kept.value);
    best anew{path, by_loss};
    anew.check_on_all_ranks(run, 0.0);
    anew.epoch_on_all_ranks(run, validated(5));
    CHECK(anew.kept.value == 5);
    return 0;
  });
}

TEST_CASE("best: within fit") {
  const folder files;
  const std::string path = files.file("best.safetensors");
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  best keeps{path, by_loss};
  run.fit(feed, 3, validation{toy_data{}, 5}, keeps);
  REQUIRE(keeps.kept.value);
  CHECK(keeps.kept.epoch == 3);
  const auto metadata = cordee::detail::io::tensor_file::open(path).metadata();
  const auto has = [&](const std::string& key) {
    return std::any_of(metadata.begin(), metadata.end(),
                       [&](const auto& m) { return m.first == key; });
  };
  CHECK((has("validation_loss") && has("epoch") && has("format") && has("cordee")));
  CHECK((has("mean") && has("deviation") && has("classes")));  // as docs/python.md reads them
}

TEST_CASE("best: refuses before the first step what would fail after an epoch") {
  const folder files;
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  const auto refusal = [&](best keeps) {
    const std::string text = error_message([&] {
      run.fit(feed, 2, validation{toy_data{}, 5}, keeps);
    });
    CHECK(run.steps_taken() == 0);
    return text;
  };
  CHECK(contains(refusal({files.put("plain", {}) + "/best.safetensors"}),
                 "Not a directory; name a file in a folder that can be written"));
  CHECK(contains(refusal({""}), "best: .path is empty"));
  CHECK(contains(error_message([&] { run.fit(feed, 1, best{files.file("x")}); }),
                 "best compares the accuracy of a validation, and there is none"));
  CHECK(run.steps_taken() == 0);
}

TEST_CASE("best: makes the folders that are missing") {
  const folder files;
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  run.fit(feed, 1, validation{toy_data{}, 5}, best{files.file("runs/a/best.safetensors")});
  CHECK(run.load(files.file("runs/a/best.safetensors")).empty());
}
