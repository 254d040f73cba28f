// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/schedule/plateau.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::schedule;
using support::relative;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
// Of tests/support/schedule_goldens.py.
constexpr std::array losses{3.0, 2.0, 1.5, 1.5, 1.49999, 1.6, 1.2, 1.3, 1.25, 1.3, 1.1999, 1.4, 1.1,
                            1.1, 1.1, 1.1, 1.1, nan,     1.0, 0.5, 0.6, 0.6,  0.6, 0.6,    0.6};

template <class P>
void check_golden(P s, const std::array<double, losses.size()>& golden) {
  for (std::size_t e = 0; e < losses.size(); ++e) {
    CAPTURE(e);
    const auto at = static_cast<double>(e);
    observation seen{at + 0.5, 7};
    s.observe(seen);  // in the middle of an epoch
    (s.needs_validation ? seen.validation_loss : seen.epoch_loss) = losses[e];
    s.observe(seen);
    CHECK(s(at + 1) == relative(golden[e], 1e-13));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("plateau: the learning rates of PyTorch's ReduceLROnPlateau", P, plateau,
                   training_plateau) {
  check_golden(P{.learning_rate = 0.8, .patience = 2},
               {0.8,    0.8,    0.8,    0.8,    0.8,   0.08,  0.08,   0.08,   0.08,
                0.008,  0.008,  0.008,  0.008,  0.008, 0.008, 0.0008, 0.0008, 0.0008,
                0.0008, 0.0008, 0.0008, 0.0008, 8e-05, 8e-05, 8e-05});
  check_golden(
      P{.learning_rate = 0.8, .patience = 1, .threshold = 0.01, .cooldown = 2, .floor = 0.02},
      {0.8,  0.8,  0.8,  0.8,  0.08, 0.08, 0.08, 0.08, 0.02, 0.02, 0.02, 0.02, 0.02,
       0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02});
  check_golden(P{.learning_rate = 0.8, .factor = 0.5, .patience = 0}, {0.8,
                                                                       0.8,
                                                                       0.8,
                                                                       0.4,
                                                                       0.2,
                                                                       0.1,
                                                                       0.1,
                                                                       0.05,
                                                                       0.025,
                                                                       0.0125,
                                                                       0.00625,
                                                                       0.003125,
                                                                       0.003125,
                                                                       0.0015625,
                                                                       0.00078125,
                                                                       0.000390625,
                                                                       0.0001953125,
                                                                       9.765625e-05,
                                                                       9.765625e-05,
                                                                       9.765625e-05,
                                                                       4.8828125e-05,
                                                                       2.44140625e-05,
                                                                       1.220703125e-05,
                                                                       6.103515625e-06,
                                                                       3.0517578125e-06});
}

TEST_CASE("plateau: epochs of cooldown after a reduction do not count, as PyTorch's") {
  constexpr std::array golden{0.8,  0.8,  0.4,  0.4,  0.4,   0.4,   0.4,  0.2, 0.2,
                              0.2,  0.2,  0.2,  0.1,  0.1,   0.1,   0.1,  0.1, 0.05,
                              0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025};
  training_plateau s{.learning_rate = 0.8, .factor = 0.5, .patience = 1, .cooldown = 3};
  for (const double learning_rate : golden) {
    s.observe({0, 0, 3});
    CHECK(s(0) == relative(learning_rate, 1e-13));
  }
}

TEST_CASE("plateau: each kind follows its own loss") {
  static_assert(needs_validation<plateau>() && !needs_validation<training_plateau>());
  plateau a{.learning_rate = 1, .patience = 0};
  training_plateau b{.learning_rate = 1, .patience = 0};
  for (const double training : {3.0, 2.0, 1.0})
    for (auto* s : {&b}) s->observe({0, 0, training, 1});
  for (const double training : {3.0, 2.0, 1.0}) a.observe({0, 0, training, 1});
  CHECK(a(0) == relative(0.01, 1e-13));
  CHECK(b(0) == 1);
}

TEST_CASE("plateau: its state is four numbers, with which another one goes on") {
  training_plateau a{.learning_rate = 1, .patience = 1, .cooldown = 1};
  for (const double loss : {3.0, 3.0, 3.0, 2.0, 2.0, 2.0}) {
    training_plateau b{.learning_rate = 1, .patience = 1, .cooldown = 1};
    std::ranges::copy(a.state(), b.state().begin());
    a.observe({0, 0, loss});
    b.observe({0, 0, loss});
    CHECK(a.learned == b.learned);
  }
  CHECK(a.learned == std::array{2.0, 2.0, 0.0, 1.0});
}

TEST_CASE("plateau: describes itself and refuses what is no plateau") {
  CHECK(plateau{.learning_rate = 0.8}.describe() ==
        "from 0.8, times 0.1 after 11 epochs without a validation loss 0.01 % below the best, not "
        "below 0");
  CHECK(training_plateau{.learning_rate = 0.8, .patience = 2, .cooldown = 5}.describe() ==
        "from 0.8, times 0.1 after 3 epochs without a training loss 0.01 % below the best, not "
        "below 0, and not within 5 epochs of the last");
  CHECK_THROWS_AS(plateau{.factor = 1}(0), usage_error);
  CHECK_THROWS_AS(plateau{.factor = 0}(0), usage_error);
  CHECK_THROWS_AS(plateau{.patience = -1}(0), usage_error);
  CHECK_THROWS_AS(plateau{.threshold = 1}(0), usage_error);
  CHECK_THROWS_AS(plateau{.cooldown = -1}(0), usage_error);
  CHECK_THROWS_AS(plateau{.floor = 1}(0), usage_error);
}

TEST_CASE("plateau: a negative loss that stands still is reduced, one that falls is not") {
  const auto after = [](double slope) {
    training_plateau s{.learning_rate = 0.8, .factor = 0.5, .patience = 2, .threshold = 0.01};
    for (int e = 0; e < 4; ++e) s.observe({.epoch_loss = -5.0 + slope * e});
    return s(4);
  };
  CHECK(after(0) == 0.4);
  CHECK(after(0.01) == 0.4);   // rises
  CHECK(after(-0.01) == 0.4);  // falls by a fifth of the threshold
  CHECK(after(-0.06) == 0.8);
}
