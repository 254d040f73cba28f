// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/sgd.hpp>

using namespace cordee;
using namespace cordee::detail::optim;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

template <class O>
std::string refusal(const O& optimizer) {
  try {
    detail::optim::check_optimizer(optimizer);
  } catch (const usage_error& e) {
    return e.what();
  }
  return {};
}

struct unchecked {};  // check is optional

}  // namespace

static_assert(Validated<sgd> && Validated<local_steps<lars>> && !Validated<unchecked>);

TEST_CASE_TEMPLATE("check refuses a momentum outside [0, 1), a negative decay, and NaN", O, sgd,
                   velocity_sgd, lars, lars_norm_of_sum, larc, lars_lr_outside, lars_unscaled,
                   decentlam, qg_dmsgd) {
  CHECK(refusal(O{}) == "");
  CHECK(refusal(O{.momentum = 0, .weight_decay = 0}) == "");
  for (const double bad : {-0.1, 1.0, 1.5, not_a_number})
    CHECK(refusal(O{.momentum = bad}).find("momentum is ") != std::string::npos);
  for (const double bad : {-1e-4, infinity, not_a_number})
    CHECK(refusal(O{.weight_decay = bad}).find("weight_decay is ") != std::string::npos);
}
TEST_CASE_TEMPLATE("check refuses a trust coefficient of zero or less and a negative epsilon", O,
                   lars, lars_norm_of_sum, larc, lars_lr_outside, lars_unscaled) {
  for (const double bad : {0.0, -1.0, not_a_number})
    CHECK(refusal(O{.trust_coefficient = bad}).find("trust_coefficient is ") != std::string::npos);
  CHECK(refusal(O{.epsilon = -1}).find("epsilon is -1") != std::string::npos);
  CHECK(refusal(O{.epsilon = 0}) == "");
}
TEST_CASE_TEMPLATE("check refuses betas outside [0, 1) and an epsilon of zero", O, adam, adamp,
                   adamw, lamb, nvlamb, lambc, deepspeed_lamb) {
  CHECK(refusal(O{}) == "");
  for (const double bad : {-0.1, 1.0, not_a_number}) {
    CHECK(refusal(O{.beta1 = bad}).find("beta1 is ") != std::string::npos);
    CHECK(refusal(O{.beta2 = bad}).find("beta2 is ") != std::string::npos);
  }
  CHECK(refusal(O{.epsilon = 0}).find("epsilon is 0") != std::string::npos);
  CHECK(refusal(O{.weight_decay = -1}).find("weight_decay is -1") != std::string::npos);
}
TEST_CASE(
    "check refuses invalid limits, dampening and periods; wrappers check the wrapped optimizer") {
  CHECK(refusal(lars_unscaled{.limits = {.ratio = 0}}) != "");
  CHECK(refusal(lars_unscaled{.limits = {.element = not_a_number}}) != "");
  CHECK(refusal(lars_unscaled{.limits = {.ratio = infinity, .element = infinity}}) == "");
  CHECK(refusal(lamb{.limits = {.least = 2, .most = 1}}).find("least <= most") !=
        std::string::npos);
  CHECK(refusal(lambc{.limits = {.most = not_a_number}}) != "");
  CHECK(refusal(lambc{.limits = {.least = -1}}) != "");
  CHECK(refusal(nvlamb{.limits = {.least = infinity, .most = infinity}}).find("least") !=
        std::string::npos);
  CHECK(refusal(nvlamb{.limits = {.least = 2, .most = infinity}}) == "");
  CHECK(refusal(sgd{.dampening = 1}) != "");
  CHECK(refusal(sgd{.momentum = 0, .nesterov = true}) != "");
  CHECK(refusal(local_steps{sgd{}, 0}) != "");
  CHECK(refusal(local_steps{sgd{.momentum = 2}, 1}) == "sgd: momentum is 2, but must be in [0, 1)");
  CHECK(refusal(decentlam_over{lars{.trust_coefficient = 0}}).find("trust_coefficient is 0") !=
        std::string::npos);
  CHECK(refusal(adapt_while_combine{sgd{.momentum = 2}}).find("momentum is 2") !=
        std::string::npos);
  CHECK(refusal(unchecked{}) == "");
}
