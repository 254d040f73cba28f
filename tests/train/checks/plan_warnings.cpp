// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/checks/plan_warnings.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::train;
using namespace support;

namespace {

/// About the schedule of a run on the toy data, 10 updates per epoch; empty if nothing.
template <class S>
std::string about(const S& schedule, double epochs) {
  quadratic<fp64> model;
  trainer run{model, sgd{}, schedule, solo{}};
  toy_loader feed;
  for (const std::string& text : plan_warnings(run, feed, epochs))
    if (contains(text, "learning rate")) return text;
  return {};
}

}  // namespace

TEST_CASE("plan_warnings: a build without optimization, or for less than the processor has") {
  CHECK(build_warnings(true, 16, false).empty());
  CHECK(build_warnings(true, 32, true).empty());
  CHECK(build_warnings(true, 64, true).empty());
  const auto slow = build_warnings(false, 16, true);
  REQUIRE(slow.size() == 2);
  CHECK(contains(slow[0], "-D CMAKE_BUILD_TYPE=Release"));
  CHECK(contains(slow[1], "vectors of 16 bytes on a processor with AVX2"));
  CHECK(
      contains(slow[1], "faster (in convolutions three to six times); compile with -march=native"));
}

TEST_CASE("plan_warnings: a learning rate of 0 for ever, or from an epoch on") {
  CHECK(contains(about(warmup{5, cosine{.epochs = 3}}, 3), "is 0 at all updates of the 3 epochs"));
  CHECK(contains(about(warmup{3, cosine{.epochs = 3}}, 3), "A warm-up must be shorter"));
  CHECK(contains(about(cosine{.epochs = 3}, 12), "is 0 from epoch 3 on, and the run has 12"));
  CHECK(contains(about(warmup{1, polynomial{.epochs = 3}}, 3.2), "is 0 from epoch 3 on"));
  CHECK(contains(about([](double) { return 0.0; }, 1), "is 0 at all updates"));
}

TEST_CASE("plan_warnings: none for schedules that fit") {
  CHECK(about(cosine{.epochs = 3}, 3).empty());
  CHECK(about(cosine{.epochs = 3, .floor = 1e-5}, 12).empty());
  CHECK(about(warmup{2, polynomial{.epochs = 3}}, 3).empty());
  CHECK(about([](double epoch) { return epoch < 1 ? 0.0 : 0.1; }, 3).empty());
  CHECK(about(cosine{.epochs = 3}, 0).empty());
}

TEST_CASE("fit: gives its callbacks the plan's warnings") {
  struct planned {
    std::vector<std::string>* warnings;
    void begin(const run_plan& p) { *warnings = p.warnings; }
  };
  std::vector<std::string> warnings;
  quadratic<fp64> model;
  const auto ends = [](double epoch) { return epoch < 1 ? 0.05 : 0.0; };
  trainer run{model, sgd{}, ends, solo{}};
  toy_loader feed;
  run.fit(feed, 2, planned{&warnings});
  REQUIRE(!warnings.empty());
  CHECK(contains(warnings.back(), "the learning rate is 0 from epoch 1 on, and the run has 2"));
}

TEST_CASE("fit: a further fit that takes no step says so") {
  struct planned {
    std::vector<std::string>* warnings;
    void begin(const run_plan& p) { *warnings = p.warnings; }
  };
  std::vector<std::string> warnings;
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{0.01}, solo{}};
  toy_loader feed;
  const auto says_so = [&] {
    return !warnings.empty() && contains(warnings.back(), "has read 2 epochs, so that this fit");
  };
  run.fit(feed, 2, planned{&warnings});
  CHECK(!says_so());
  CHECK(run.fit(feed, 3, planned{&warnings}).steps > 0);
  CHECK(!says_so());
  toy_loader other;
  trainer again{model, sgd{}, constant{0.01}, solo{}};
  again.fit(other, 2);
  CHECK(again.fit(other, 2, planned{&warnings}).steps == 0);
  CHECK(says_so());
}

TEST_CASE("plan_warnings: an adaptive schedule's learning rates are not known") {
  struct adaptive {
    double operator()(double) const { return 0; }
    void observe(const observation&) {}
  };
  CHECK(about(adaptive{}, 3).empty());
}

TEST_CASE("plan_warnings: a radius near or above 1") {
  CHECK(contains(describe_radius(0.9995), "multiplied by 0.9995 per round: too close to 1"));
  CHECK(contains(describe_radius(1.25), "multiplied by 1.25 per round: it grows"));
  CHECK(describe_radius(0.9) == "the ranks' disagreement is multiplied by 0.9 per round");
}

TEST_CASE("sample_updates: the first, the last, and evenly between") {
  CHECK(sample_updates(0, 0, 10).empty());
  CHECK(sample_updates(4, 5, 10) == std::vector<std::int64_t>{4});
  CHECK(sample_updates(2, 6, 10) == std::vector<std::int64_t>{2, 3, 4, 5});
  CHECK(sample_updates(0, 101, 5) == std::vector<std::int64_t>{0, 25, 50, 75, 100});
  const auto many = sample_updates(0, std::int64_t{1} << 60, 1000);
  CHECK((many.size() == 1000 && many.front() == 0 && many.back() == (std::int64_t{1} << 60) - 1));
}
