// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/polynomial.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::schedule;
using support::relative;

namespace {
constexpr double ulp = 0x1p-52;  // unit in the last place of 1
}  // namespace

TEST_CASE(
    "legw: the golden table of learning rates and warm-up epochs") {  // docs/mathematics.md, 7.6
  constexpr std::array golden{std::array{1.0, 0.1, 0.3125}, std::array{2.0, 0.141421356237, 0.625},
                              std::array{4.0, 0.2, 1.25},   std::array{8.0, 0.282842712475, 2.5},
                              std::array{16.0, 0.4, 5.0},   std::array{32.0, 0.565685424949, 10.0}};
  for (const auto& [k, learning_rate, epochs] : golden) {
    CAPTURE(k);
    const legw s{0.3125, constant{0.1}, 1024, static_cast<std::int64_t>(1024 * k)};
    CHECK(s.epochs() == epochs);
    CHECK(s(0) == 0);
    for (const double share : {0.25, 0.5, 0.75})
      CHECK(std::abs(s(share * epochs) - share * learning_rate) < 1e-12);
    for (const double later : {epochs, 2 * epochs, 90.0})
      CHECK(std::abs(s(later) - learning_rate) < 1e-12);
  }
}

TEST_CASE("legw: the number of updates of the warm-up does not depend on the batch") {
  constexpr double samples = 1'281'167;
  for (const std::int64_t batch : {100, 256, 512, 8192, 32768}) {
    CAPTURE(batch);
    const legw s{0.25, constant{0.1}, 256, batch};
    const double updates_per_epoch = samples / static_cast<double>(batch);
    CHECK(s.epochs() * updates_per_epoch == relative(0.25 * samples / 256, 4 * ulp));
  }
}

TEST_CASE("legw equals warmup around sqrt_scaled, and moves no epoch of the schedule") {
  const multistep steps{.learning_rate = 0.1, .milestones = {30, 60, 80}};
  const polynomial poly{.peak = 0.1, .epochs = 90};
  for (const std::int64_t batch : {64, 256, 1000, 8192}) {
    CAPTURE(batch);
    const double k = static_cast<double>(batch) / 256;
    const warmup equivalent{0.5 * k, sqrt_scaled{poly, 256, batch}};
    const legw s{0.5, poly, 256, batch};
    for (double e = 0; e < 92; e += 0.37) CHECK(s(e) == relative(equivalent(e), 8 * ulp));
    const legw t{0.5, steps, 256, batch};
    CHECK(t(30) == relative(std::sqrt(k) * 0.01, 4 * ulp));
    CHECK(t(29.9) == relative(std::sqrt(k) * 0.1, 4 * ulp));
    CHECK(s(std::nextafter(s.epochs(), 0)) == relative(s(s.epochs()), 8 * ulp));
  }
}

TEST_CASE("legw refuses a missing reference batch and a warm-up longer than the schedule") {
  CHECK_THROWS_AS((legw<constant>{0.3, constant{0.1}, 0, 512}(0)), usage_error);
  CHECK_THROWS_AS((legw<constant>{0.3, constant{0.1}, 256, 0}(0)), usage_error);
  CHECK_THROWS_AS((legw<constant>{-1, constant{0.1}, 256, 512}(0)), usage_error);
  const polynomial poly{.peak = 0.1, .epochs = 20};
  CHECK_THROWS_WITH_AS(
      (legw{1, poly, 256, 8192}(0)),
      "legw: 32 epochs of warm-up do not fit the 20 epochs of the schedule; take a "
      "smaller batch, a shorter warm-up at the reference batch, or more epochs",
      usage_error);
  CHECK(legw{0.5, poly, 256, 8192}(16) > 0);
  // The length of a wrapped schedule is forwarded; another warm-up does not count as its end.
  CHECK_THROWS_WITH_AS((legw{1, sqrt_scaled{poly, 256, 512}, 256, 8192}(0)),
                       doctest::Contains("do not fit the 20 epochs"), usage_error);
  CHECK_THROWS_WITH_AS((legw{1, warmup_then{5, poly}, 256, 8192}(0)),
                       doctest::Contains("do not fit the 25 epochs"), usage_error);
  CHECK_THROWS_WITH_AS((legw{1, warmup{40, poly}, 256, 8192}(0)),
                       doctest::Contains("do not fit the 20 epochs"), usage_error);
  CHECK(legw{1, warmup{5, polynomial{.peak = 0.1, .epochs = 90}}, 256, 8192}(32) > 0);
}

TEST_CASE("legw forwards the loss to an adaptive schedule, and describes itself") {
  struct observing {
    double last_loss = 0;
    double operator()(double) const { return last_loss; }
    void observe(const observation& seen) { last_loss = seen.loss; }
  };
  static_assert(AdaptiveSchedule<legw<observing>> && !AdaptiveSchedule<legw<constant>>);
  legw s{0, observing{}, 256, 1024};
  detail::schedule::observe(s, {0, 3});
  CHECK(s(0) == 6);
  CHECK(legw{0.25, constant{0.1}, 256, 1024}.describe() ==
        "LEGW, 1024/256: warm-up over the first 1 epochs of 2 times: constant 0.1");
}
