// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>

#include <doctest/doctest.h>

#include <cordee/data/loader_options.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using detail::data::batch_plan;

namespace {
constexpr std::int64_t imagenet = 1281167;
}

TEST_CASE("step counts of published runs follow from samples, batch and epochs") {
  // docs/mathematics.md, 7.5 and 7.6: one ceiling for the run, or one for each epoch.
  const auto carry = [](std::int64_t batch, double epochs) {
    return batch_plan{imagenet, batch, last_batch::carry}.steps(epochs);
  };
  CHECK(carry(8192, 90) == 14076);  // Goyal
  CHECK(carry(32768, 90) == 3519);  // You, Akiba, Ying
  CHECK(carry(32768, 64) == 2503);  // You
  CHECK(carry(55296, 90) == 2086);  // Mikami
  const auto pad = [](std::int64_t batch, double epochs) {
    return batch_plan{imagenet, batch, last_batch::pad}.steps(epochs);
  };
  CHECK(pad(65536, 90) == 1800);  // Jia
  CHECK(pad(81920, 90) == 1440);  // Yamazaki
  CHECK(pad(32768, 90) == 40 * 90);
  CHECK(batch_plan{imagenet, 32768, last_batch::drop}.steps(90) == 39 * 90);
}

TEST_CASE("when the batch divides the data set, drop, pad and carry are equal") {
  for (const std::int64_t batch : {1, 10, 50})
    for (std::int64_t k = 0; k < 120; ++k) {
      const batch_plan drop{50, batch, last_batch::drop}, pad{50, batch, last_batch::pad},
          carry{50, batch, last_batch::carry};
      CHECK(drop.steps(3) == carry.steps(3));
      CHECK(pad.steps(3) == carry.steps(3));
      CHECK(drop.epoch(k) == carry.epoch(k));
      CHECK(pad.epoch(k) == carry.epoch(k));
      for (std::int64_t j = 0; j < batch; ++j) {
        CHECK(drop.sample(k, j).epoch == carry.sample(k, j).epoch);
        CHECK(drop.sample(k, j).index == carry.sample(k, j).index);
        CHECK(pad.sample(k, j).index == carry.sample(k, j).index);
      }
    }
}

TEST_CASE("steps(e) is the first step whose epoch is at least e") {
  for (const last_batch t : {last_batch::drop, last_batch::pad, last_batch::carry})
    for (const std::int64_t batch : {1, 7, 12, 49, 50}) {
      const batch_plan p{50, batch, t};
      for (int e = 0; e <= 20; ++e) {
        CAPTURE(batch);
        CAPTURE(e);
        const std::int64_t steps = p.steps(e);
        CHECK(p.epoch(steps) >= e);
        if (steps > 0) CHECK(p.epoch(steps - 1) < e);
        if (t != last_batch::carry) CHECK(p.epoch(steps) == e);
      }
    }
}

TEST_CASE("a fraction of an epoch is rounded up to whole updates, rounding errors excepted") {
  const batch_plan p{300, 10, last_batch::carry};
  CHECK(p.steps(0.1) == 3);
  CHECK(p.steps(0.101) == 4);
  CHECK(p.steps(0) == 0);
  CHECK(batch_plan{300, 10, last_batch::drop}.steps(0.1) == 3);
}

TEST_CASE("visits of each sample in one epoch") {
  const auto visits = [](last_batch t) {
    const batch_plan p{50, 12, t};
    std::map<std::int64_t, int> counts;
    for (std::int64_t k = 0; p.epoch(k) < 2; ++k)
      for (std::int64_t j = 0; j < 12; ++j)
        if (const auto s = p.sample(k, j); s.epoch == 1) ++counts[s.index];
    return counts;
  };
  for (std::int64_t i = 0; i < 50; ++i) {
    CAPTURE(i);
    CHECK(visits(last_batch::drop)[i] == (i < 48 ? 1 : 0));
    CHECK(visits(last_batch::pad)[i] == (i < 10 ? 2 : 1));
    CHECK(visits(last_batch::carry)[i] == 1);
  }
}

TEST_CASE("a batch larger than the data set spans several epochs") {
  const batch_plan pad{5, 12, last_batch::pad}, carry{5, 12, last_batch::carry};
  CHECK(pad.steps(3) == 3);
  CHECK(carry.steps(3) == 2);
  CHECK(pad.sample(1, 11).index == 1);
  CHECK(pad.sample(1, 11).epoch == 1);
  CHECK(carry.sample(1, 11).epoch == 4);
  CHECK(carry.sample(1, 11).index == 3);
}

TEST_CASE("epochs that are no count of updates are refused by their number") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const last_batch t : {last_batch::drop, last_batch::pad, last_batch::carry}) {
    const batch_plan p{50, 12, t};
    const auto refusal = [&](double epochs) {
      return support::message_of<usage_error>([&] { static_cast<void>(p.steps(epochs)); });
    };
    const auto has = [&](double epochs, const char* number) {
      return support::contains_all(
          refusal(epochs),
          {"a run of ", number, " epochs: expected a number from 0 on", "updates"});
    };
    CHECK(has(std::numeric_limits<double>::quiet_NaN(), "nan"));
    CHECK(has(infinity, "inf"));
    CHECK(has(-infinity, "-inf"));
    CHECK(has(-1, "-1"));
    CHECK(has(1e300, "1e+300"));
    CHECK(has(1e17, "1e+17"));
    CHECK(refusal(1e15).empty());
  }
}

TEST_CASE("positions of the last updates that can be counted do not overflow") {
  constexpr std::int64_t most = detail::data::largest_batch;
  for (const std::int64_t samples : {std::int64_t{1}, std::int64_t{0xffffffff}})
    for (const std::int64_t batch : {std::int64_t{1}, most})
      for (const last_batch t : {last_batch::pad, last_batch::carry}) {
        const batch_plan p{samples, batch, t};
        const auto last = p.sample(p.most_steps() + 1, batch - 1);  // one is fetched ahead
        CHECK(last.epoch >= 0);
        CHECK(last.index >= 0);
        CHECK(last.index < samples);
        CHECK(p.epoch(p.most_steps()) > 0);
      }
}
