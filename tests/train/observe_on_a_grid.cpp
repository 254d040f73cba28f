// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks in int8 on a GPU, emulated: their ranges stand in the device's memory, and the steps are
// the CPU's.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/train/calibrate.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/bytes_on.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class D>
made alone_on(const D& where, const how& by = {}) {
  return on_ranks(1, [&](threads link) { return train(where, ring{link}, by); })[0];
}

double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    off += std::pow(static_cast<double>(a[i] - b[i]), 2);
    all += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(off / all);
}

}  // namespace

TEST_CASE("int8 on a grid: steps are the CPU's but for rounding, the first range to the bit") {
  const made here = alone_on(cpu(1)), there = alone_on(deferred(1));
  REQUIRE(there.ranges.size() == 4);
  CHECK(there.ranges[0] == here.ranges[0]);
  CHECK(there.ranges[1] == here.ranges[1]);
  CHECK(there.losses[0] == doctest::Approx(here.losses[0]).epsilon(1e-4));
  // A number that rounds to the other byte is a 255th of its range.
  CHECK(apart(there.weights, here.weights) < 0.02);
  CHECK(there.held_out == doctest::Approx(here.held_out).epsilon(0.02));
}

TEST_CASE("int8 on a grid: every rank has the same ranges, and a percentile is one for all") {
  const how by{.percentile = 97};
  const auto by_rank = on_ranks(2, [&](threads link) {
    return train(deferred(static_cast<std::uint64_t>(link.rank())), ring{link}, by);
  });
  CHECK(by_rank[0].ranges == by_rank[1].ranges);
  const made here = alone_on(cpu(1), by);
  CHECK(by_rank[0].ranges[0] == here.ranges[0]);
  CHECK(by_rank[0].ranges[1] == here.ranges[1]);
  CHECK(by_rank[0].ranges[3] == doctest::Approx(here.ranges[3]).epsilon(0.3));
}

TEST_CASE("int8 on a grid: a skipped step moves no range, nor does any behind the freezing epoch") {
  const made frozen = alone_on(deferred(1), {.freeze_at = 1}),
             skipped = alone_on(deferred(1), {.freeze_at = 2, .bad_step = 1});
  CHECK(skipped.ranges == frozen.ranges);
  CHECK(alone_on(deferred(1), {.freeze_at = 2}).ranges != frozen.ranges);
}

TEST_CASE(
    "int8 on a grid: what the host fetches late it fetches in order, and steps are replayed") {
  how by{.percentile = 97, .bad_step = 4};
  const made eager = alone_on(deferred(1), by);
  CHECK(eager.replays == 0);
  CHECK(alone_on(deferred(0), by) == eager);
  by.replay = true;
  for (const std::uint64_t seed : {0u, 2u}) {
    const made replayed = alone_on(deferred(seed), by);
    CHECK(replayed == eager);
    CHECK(replayed.replays > 5);
  }
}

TEST_CASE("int8 on a grid: what the CPU calibrated and saved evaluates as it did there") {
  const folder here;
  const std::string path = here.file("calibrated.safetensors");
  const auto loss_on = [&](const auto& where, const auto& prepare) {
    return on_ranks(1, [&](threads link) {
      net_on<std::decay_t<decltype(where)>> net{where};
      trainer run{net, sgd{.momentum = 0.9}, steadily, ring{link}};
      prepare(run);
      return run.evaluate(bytes_images, {}, 10).loss;
    })[0];
  };
  const double wanted = loss_on(cpu(1), [&](auto& run) {
    loader feed{bytes_images, run.link(), {.global_batch = 4}};
    run.fit(feed, 2);
    calibrate(run, feed, 5);
    run.save(path);
  });
  const double found = loss_on(deferred(1), [&](auto& run) { run.load(path); });
  CHECK(found == doctest::Approx(wanted).epsilon(1e-3));
}

TEST_CASE("int8 on a grid: evaluation without ranges refuses, by the first such layer's name") {
  const deferred where;
  const std::string said = complaint([&] {
    threads::launch(1, [&](threads link) {
      net_on<deferred> net{where};
      trainer run{net, sgd{.momentum = 0.9}, steadily, ring{link}};
      (void)run.evaluate(bytes_images, {});
    });
  });
  CHECK(said.find("layer \"conv1\" does not know the range of its input") != said.npos);
}
