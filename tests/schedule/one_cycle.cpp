// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/one_cycle.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {

using curve = std::array<double, 20>;

// Twenty updates in four epochs, against values of thirteen digits.
void check_curve(one_cycle s, const curve& golden) {
  s.peak = 2;
  s.epochs = 4;
  s.update = 0.2;
  for (std::size_t k = 0; k < golden.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(s(static_cast<double>(k) / 5) - golden[k]) < 1e-11);
  }
}

}  // namespace

TEST_CASE("one_cycle: the learning rates of PyTorch's OneCycleLR") {
  // tests/support/schedule_goldens.py
  check_curve({}, {0.08,
                   0.2633436854001,
                   0.7433436854001,
                   1.3366563146,
                   1.8166563146,
                   2,
                   1.97492801247,
                   1.900969264027,
                   1.781832355142,
                   1.6234913079,
                   1.433886003583,
                   1.222524043873,
                   1.000004,
                   0.7774839561274,
                   0.5661219964174,
                   0.3765166921005,
                   0.2181756448579,
                   0.09903873597305,
                   0.02507998752983,
                   8e-06});
  check_curve({.linear = true}, {0.08,
                                 0.464,
                                 0.848,
                                 1.232,
                                 1.616,
                                 2,
                                 1.857143428571,
                                 1.714286857143,
                                 1.571430285714,
                                 1.428573714286,
                                 1.285717142857,
                                 1.142860571429,
                                 1.000004,
                                 0.8571474285714,
                                 0.7142908571429,
                                 0.5714342857143,
                                 0.4285777142857,
                                 0.2857211428571,
                                 0.1428645714286,
                                 8.000000000008e-06});
  check_curve({.three_phase = true}, {0.08,
                                      0.2633436854001,
                                      0.7433436854001,
                                      1.3366563146,
                                      1.8166563146,
                                      2,
                                      1.8166563146,
                                      1.3366563146,
                                      0.7433436854001,
                                      0.2633436854001,
                                      0.08,
                                      0.07758794606095,
                                      0.07064271354699,
                                      0.060002,
                                      0.04694923251397,
                                      0.03305876748603,
                                      0.020006,
                                      0.009365286453013,
                                      0.002420053939047,
                                      8e-06});
  check_curve({.rise = 0.5, .start_divisor = 10, .end_divisor = 100}, {0.2,
                                                                       0.2542766412927,
                                                                       0.4105600011929,
                                                                       0.65,
                                                                       0.9437166400998,
                                                                       1.2562833599,
                                                                       1.55,
                                                                       1.789439998807,
                                                                       1.945723358707,
                                                                       2,
                                                                       1.951105459779,
                                                                       1.809207977381,
                                                                       1.58819746704,
                                                                       1.309707977381,
                                                                       1.001,
                                                                       0.6922920226194,
                                                                       0.4138025329598,
                                                                       0.1927920226194,
                                                                       0.05089454022114,
                                                                       0.002});
}

TEST_CASE("one_cycle: without the epochs of an update it is the limit of many updates") {
  const one_cycle limit{.peak = 1, .epochs = 10};
  CHECK(limit(0) == relative(0.04, 0x1p-50));
  CHECK(limit(3) == 1);
  CHECK(limit(10) == relative(4e-6, 0x1p-50));
  CHECK(limit(11) == limit(10));
  one_cycle fine = limit;
  // The curve moves by at most one update, and its slope is below pi/2 times 0.96 / (3 epochs).
  for (const double u : {0.1, 0.01, 0.001}) {
    fine.update = u;
    for (double e = 0; e < 10; e += 0.37) CHECK(std::abs(fine(e) - limit(e)) <= 0.51 * u);
  }
  CHECK(one_cycle{.peak = 1, .epochs = 10, .rise = 0}(0) == 1);
  CHECK(one_cycle{.peak = 1, .epochs = 10, .rise = 1}(10) == 1);
}

TEST_CASE("one_cycle: describes itself and refuses what is no cycle") {
  CHECK(one_cycle{.peak = 1, .epochs = 10}.describe() ==
        "one cycle over 10 epochs: cosine from 0.04 to 1 in the first 3, then to 4e-06");
  CHECK(one_cycle{.peak = 1, .epochs = 10, .linear = true, .three_phase = true}.describe() ==
        "one cycle over 10 epochs: linear from 0.04 to 1 in the first 3, back in as many, then to "
        "4e-06");
  CHECK_THROWS_AS(one_cycle{}(0), usage_error);
  CHECK_THROWS_AS((one_cycle{.epochs = 1, .rise = 1.1}(0)), usage_error);
  CHECK_THROWS_AS((one_cycle{.epochs = 1, .rise = 0.6, .three_phase = true}(0)), usage_error);
  CHECK_THROWS_AS((one_cycle{.epochs = 1, .start_divisor = 0}(0)), usage_error);
  CHECK_THROWS_AS((one_cycle{.epochs = 1, .end_divisor = -1}(0)), usage_error);
  CHECK_THROWS_AS((one_cycle{.epochs = 1, .update = 1}(0)), usage_error);
}
