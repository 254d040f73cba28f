// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/sgd.hpp>

using namespace cordee;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN(),
                 endless = std::numeric_limits<double>::infinity();

template <class O>
std::string refusal(const O& rule) {
  try {
    check_rule(rule);
  } catch (const misuse& e) {
    return e.what();
  }
  return {};
}

struct silent {};  // a rule of one's own need not be able to check itself

}  // namespace

static_assert(Checks<sgd> && Checks<local<lars>> && !Checks<silent>);

TEST_CASE_TEMPLATE("a momentum outside [0, 1), a negative decay, or no number is refused", O, sgd,
                   velocity_sgd, lars, lars_rate_outside, lars_unscaled, decentlam) {
  CHECK(refusal(O{}) == "");
  CHECK(refusal(O{.momentum = 0, .weight_decay = 0}) == "");
  for (const double bad : {-0.1, 1.0, 1.5, no_number})
    CHECK(refusal(O{.momentum = bad}).find("momentum is ") != std::string::npos);
  for (const double bad : {-1e-4, endless, no_number})
    CHECK(refusal(O{.weight_decay = bad}).find("weight_decay is ") != std::string::npos);
}
TEST_CASE_TEMPLATE("a trust of zero or less, or a negative epsilon, is refused", O, lars,
                   lars_rate_outside, lars_unscaled) {
  for (const double bad : {0.0, -1.0, no_number})
    CHECK(refusal(O{.trust = bad}).find("trust is ") != std::string::npos);
  CHECK(refusal(O{.epsilon = -1}).find("epsilon is -1") != std::string::npos);
  CHECK(refusal(O{.epsilon = 0}) == "");
}
TEST_CASE_TEMPLATE("betas outside [0, 1), and an epsilon of zero, are refused", O, adamw, lamb,
                   nvlamb) {
  CHECK(refusal(O{}) == "");
  for (const double bad : {-0.1, 1.0, no_number}) {
    CHECK(refusal(O{.beta1 = bad}).find("beta1 is ") != std::string::npos);
    CHECK(refusal(O{.beta2 = bad}).find("beta2 is ") != std::string::npos);
  }
  CHECK(refusal(O{.epsilon = 0}).find("epsilon is 0") != std::string::npos);
  CHECK(refusal(O{.weight_decay = -1}).find("weight_decay is -1") != std::string::npos);
}
TEST_CASE("limits, dampening and meetings that make no sense are refused, a wrapper asks inside") {
  CHECK(refusal(lars_unscaled{.ratio_limit = 0}) != "");
  CHECK(refusal(lars_unscaled{.element_limit = no_number}) != "");
  CHECK(refusal(lars_unscaled{.ratio_limit = endless, .element_limit = endless}) == "");
  CHECK(refusal(sgd{.dampening = 1}) != "");
  CHECK(refusal(sgd{.momentum = 0, .nesterov = true}) != "");
  CHECK(refusal(local{sgd{}, 0}) != "");
  CHECK(refusal(local{sgd{.momentum = 2}, 1}) == "sgd: momentum is 2, but must be in [0, 1)");
  CHECK(refusal(decentlam_over{lars{.trust = 0}}).find("trust is 0") != std::string::npos);
  CHECK(refusal(silent{}) == "");
}
