// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/measure/critical_batch.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

TEST_CASE("critical_batch::fit: finds the hyperbola on which the runs lie") {
  for (const double fewest_updates : {250.0, 14000.0})
    for (const double critical : {32.0, 128.0, 5000.0}) {
      std::vector<critical_batch::run> runs;
      for (const double batch : {8.0, 64.0, 512.0, 4096.0})
        runs.push_back({batch, fewest_updates * (1 + critical / batch)});
      const critical_batch fit = critical_batch::fit(runs);
      CHECK(fit.fewest_updates == relative(fewest_updates, 1e-9));
      CHECK(fit.fewest_samples == relative(fewest_updates * critical, 1e-9));
      CHECK(fit.batch() == relative(critical, 1e-9));
      CHECK(fit.relative_error < 1e-9);
      // (S/S_min - 1)(E/E_min - 1) = 1, and both are 2 at the critical batch.
      for (const double at : {1.0, 100.0, 1e6})
        CHECK((fit.updates(at) / fit.fewest_updates - 1) *
                  (fit.samples(at) / fit.fewest_samples - 1) ==
              relative(1, 1e-9));
      CHECK(fit.updates(fit.batch()) == relative(2 * fit.fewest_updates, 1e-12));
      CHECK(fit.samples(fit.batch()) == relative(2 * fit.fewest_samples, 1e-12));
    }
}

TEST_CASE("critical_batch::fit: the golden fit of runs beside a hyperbola") {
  // numpy: lstsq([[1/S, 1/(B S)]], 1), see the equations in critical_batch.hpp.
  const std::vector<critical_batch::run> runs{{32, 5100}, {128, 1950}, {256, 1500}, {1024, 1150}};
  const critical_batch fit = critical_batch::fit(runs);
  CHECK(fit.fewest_updates == relative(1006.4631260496, 1e-10));
  CHECK(fit.fewest_samples == relative(127981.028037122, 1e-10));
  CHECK(fit.relative_error == relative(0.0190601710700118, 1e-9));
}

TEST_CASE("critical_batch::fit refuses runs that have no critical batch") {
  CHECK_THROWS_AS((void)critical_batch::fit({}), usage_error);
  const std::vector<critical_batch::run> one{{32, 5100}};
  CHECK_THROWS_AS((void)critical_batch::fit(one), usage_error);
  const std::vector<critical_batch::run> same{{32, 5100}, {32, 5000}, {32, 4900}};
  CHECK_THROWS_AS((void)critical_batch::fit(same), usage_error);
  const std::vector<critical_batch::run> none{{32, 0}, {64, 100}};
  CHECK_THROWS_AS((void)critical_batch::fit(none), usage_error);
  const std::vector<critical_batch::run> rising{{32, 100}, {64, 200}};
  CHECK_THROWS_AS((void)critical_batch::fit(rising), error);
  const std::vector<critical_batch::run> superlinear{{32, 1000}, {64, 400}};
  CHECK_THROWS_WITH_AS((void)critical_batch::fit(superlinear),
                       doctest::Contains("no critical batch"), error);
}
