// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws hold for every optimizer, and each law detects its fault.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

using namespace cordee;
using namespace cordee::detail::core;

namespace {

constexpr optimizer_law_options lr_inside{.zero_learning_rate_moves_nothing = false};

}  // namespace

TEST_CASE("sgd obeys the optimizer laws") {
  CHECK(optimizer_laws(sgd{}) == "");
  CHECK(optimizer_laws(sgd{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}) == "");
  CHECK(optimizer_laws(sgd{.momentum = 0.5, .dampening = 0.5, .decay_on = trainable}) == "");
}
TEST_CASE("velocity_sgd obeys the optimizer laws") {
  CHECK(optimizer_laws(velocity_sgd{.weight_decay = 0.1, .nesterov = true}) == "");
  CHECK(optimizer_laws(velocity_sgd{.momentum_correction = false}, lr_inside) == "");
}
TEST_CASE("lars obeys the optimizer laws") {
  CHECK(optimizer_laws(lars{.trust_coefficient = 0.02, .nesterov = true}, lr_inside) == "");
  CHECK(optimizer_laws(lars{.weight_decay = 0, .adapt_on = trainable}, lr_inside) == "");
}
TEST_CASE("lars_lr_outside obeys the optimizer laws") {
  CHECK(optimizer_laws(lars_lr_outside{.trust_coefficient = 0.02, .nesterov = true}) == "");
  CHECK(optimizer_laws(lars_lr_outside{.weight_decay = 0, .epsilon = 0, .adapt_on = trainable}) ==
        "");
}
TEST_CASE("lars_unscaled obeys the optimizer laws") {
  CHECK(optimizer_laws(lars_unscaled{.trust_coefficient = 0.02}) == "");
  CHECK(optimizer_laws(lars_unscaled{.weight_decay = 0, .epsilon = 0, .adapt_on = trainable}) ==
        "");
}
TEST_CASE("larc and lars_norm_of_sum obey the optimizer laws") {
  CHECK(optimizer_laws(larc{}) == "");
  CHECK(optimizer_laws(larc{.weight_decay = 0.1, .limits = {.clip = false}, .nesterov = true}) ==
        "");
  CHECK(optimizer_laws(lars_norm_of_sum{.weight_decay = 0.1}, lr_inside) == "");
}
TEST_CASE("lamb and its variants obey the optimizer laws") {
  CHECK(optimizer_laws(lamb{}) == "");
  CHECK(optimizer_laws(lamb{.beta1 = 0, .beta2 = 0, .weight_decay = 0}) == "");
  CHECK(optimizer_laws(nvlamb{}) == "");
  CHECK(optimizer_laws(lambc{.limits = {.least = 0.1, .most = 0.5}}) == "");
  CHECK(optimizer_laws(deepspeed_lamb{}) == "");
}
TEST_CASE("adamw obeys the optimizer laws") {
  CHECK(optimizer_laws(adamw{}) == "");
  CHECK(optimizer_laws(adamw{.beta1 = 0, .epsilon = 1e-300, .decay_on = trainable}) == "");
  CHECK(optimizer_laws(adamw{.beta2 = 0, .epsilon = 1e-300}) == "");
}
TEST_CASE("local_steps obeys the optimizer laws around optimizers") {
  CHECK(optimizer_laws(local_steps{sgd{.weight_decay = 0.1}, 2}) == "");
#if defined(CORDEE_ALL_TESTS)
  CHECK(optimizer_laws(local_steps{lars{}, 3}, lr_inside) == "");
  CHECK(optimizer_laws(local_steps{lamb{}}) == "");
#endif
}
TEST_CASE("clip obeys the optimizer laws around optimizers, local_steps included") {
  CHECK(optimizer_laws(clip{sgd{}, 0.5}) == "");
  CHECK(optimizer_laws(clip{lars{}, 0.5}, lr_inside) == "");
  CHECK(optimizer_laws(clip{local_steps{sgd{}, 2}, 0.5}) == "");
#if defined(CORDEE_ALL_TESTS)
  CHECK(optimizer_laws(clip{lamb{}, 1.0}) == "");
  CHECK(optimizer_laws(clip{clip{adamw{}, 1.0}, 0.5, 0.0}) == "");
  CHECK(optimizer_laws(local_steps{clip{lars{}, 0.5}, 2}, lr_inside) == "");
#endif
}
TEST_CASE("mixing optimizers obey the optimizer laws") {
  CHECK(optimizer_laws(decentlam{}) == "");
  CHECK(optimizer_laws(decentlam{.nesterov = true, .momentum_correction = false}, lr_inside) == "");
  CHECK(optimizer_laws(decentlam_over{lars{}}, lr_inside) == "");
  CHECK(optimizer_laws(clip{decentlam{}, 0.5}, lr_inside) == "");
}

// Optimizers with one fault each
namespace {

/// The faults of `faulty`, a form of SGD.
enum class fault {
  none,
  adds_constant,      // to the gradient
  writes_padding,     // behind the first segment
  ignores_lr,         // steps at learning rate 1
  adds_workers,       // the number of workers to a weight
  changes_first,      // number of each bucket in propose
  eager_slot,         // writes a slot in propose though eager
  proposes_half,      // of the bucket
  counts_calls,       // in a static variable
  squares_in_real,    // gradients overflow or underflow
  overflows,          // the state is not limited
  counts_steps,       // divides by steps instead of applied ones
  writes_in_propose,  // a weight, though the step may be skipped
  loses_nan,          // in propose
  refuses             // itself in check
};

template <class Real>
Real limited(Real x) {
  return std::clamp(x, std::numeric_limits<Real>::lowest(), std::numeric_limits<Real>::max());
}

template <fault F>
struct faulty {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = F != fault::writes_in_propose;
  static constexpr int slots = 1;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info&,
                           typename D::stream) const {
    if (F == fault::eager_slot) v.slots[0][0] += v.grads[0];
    if (F == fault::writes_in_propose && v.weights.size > 0) v.weights[0] += 1;
    if (F == fault::changes_first && v.grads.size > 0) v.grads[0] += 1;
    if (F == fault::loses_nan)
      for (Real& g : v.grads)
        if (!(g > -1)) g = -1;
    if (F == fault::proposes_half) return v.grads.subspan(0, v.grads.size / 2);
    return v.grads;
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    static int steps = 0;
    ++steps;
    for (const segment& part : v.segments) {
      const std::size_t first = part.offset - v.segments.front().offset;
      for (std::size_t i = first; i < first + part.size; ++i) {
        Real g = v.grads[i];
        if (F == fault::adds_constant) g += 1;
        if (F == fault::squares_in_real && g != 0) g /= std::sqrt(g * g);
        if (F == fault::counts_calls) g *= static_cast<Real>(steps);
        if (F == fault::counts_steps) g /= static_cast<Real>(info.step + 1);
        v.slots[0][i] = Real(0.9) * v.slots[0][i] + g;
        if (F != fault::overflows && F != fault::squares_in_real)
          v.slots[0][i] = limited(v.slots[0][i]);
        v.weights[i] = limited(
            v.weights[i] -
            static_cast<Real>(F == fault::ignores_lr ? 1.0 : info.learning_rate) * v.slots[0][i]);
      }
    }
    if (F == fault::writes_padding) v.weights[v.segments[0].end()] += v.grads[0];
    if (F == fault::adds_workers && s.workers != nullptr)
      v.weights[0] += static_cast<Real>(s.workers->size());
  }
  void check() const {
    if (F == fault::refuses) throw usage_error("invalid");
  }
  [[nodiscard]] std::string describe() const { return "faulty"; }
};

bool contains(const std::string& violation, const char* part) {
  CAPTURE(violation);
  return violation.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("optimizer_laws returns an empty string without a fault, else one line per law") {
  CHECK(optimizer_laws(faulty<fault::none>{}) == "");
  CHECK(optimizer_laws(faulty<fault::counts_steps>{}) ==
        "after a skipped step the run differs from one without it: count info.applied, not "
        "info.step\n");
  CHECK(optimizer_laws(velocity_sgd{.momentum_correction = false}) ==
        "fp32: a step at learning rate 0 moved the weights, after 3 steps: take the learning rate "
        "out of the momentum, or test with {.zero_learning_rate_moves_nothing = false}\n"
        "fp64: a step at learning rate 0 moved the weights, after 3 steps: take the learning rate "
        "out of the momentum, or test with {.zero_learning_rate_moves_nothing = false}\n");
  CHECK(optimizer_laws(sgd{.momentum = 2}) == "sgd: momentum is 2, but must be in [0, 1)\n");
}
TEST_CASE("each law of optimizers detects its fault") {
  CHECK(contains(laws::zero_stays_zero<double>(faulty<fault::adds_constant>{}), "a zero weight"));
  CHECK(contains(laws::zero_stays_zero<float>(faulty<fault::writes_padding>{}), "behind \"stem\""));
  CHECK(contains(laws::zero_learning_rate_moves_nothing<double>(faulty<fault::ignores_lr>{}),
                 "at learning rate 0 moved the weights, after 0 steps"));
  CHECK(contains(
      laws::zero_learning_rate_moves_nothing<double>(velocity_sgd{.momentum_correction = false}),
      "after 3 steps"));
  CHECK(contains(laws::workers_change_no_bit<float>(faulty<fault::adds_workers>{}), "workers"));
  CHECK(contains(laws::buckets_change_no_bit<float>(faulty<fault::changes_first>{}), "proposals"));
  CHECK(contains(laws::proposes_a_range_and_writes_no_state<float>(faulty<fault::eager_slot>{}),
                 "eager"));
  CHECK(contains(laws::proposes_a_range_and_writes_no_state<float>(faulty<fault::proposes_half>{}),
                 "range"));
  CHECK(contains(laws::is_stateless<double>(faulty<fault::counts_calls>{}), "second run"));
  CHECK(contains(laws::finite_stays_finite<float>(faulty<fault::squares_in_real>{}),
                 "gradients of size 1e-30"));
  CHECK(
      contains(laws::finite_stays_finite<double>(faulty<fault::overflows>{}), "the same gradient"));
  CHECK(contains(laws::finite_stays_finite<double>(faulty<fault::overflows>{}),
                 ": limit what may overflow, at.put(w, at.clamped(x))"));
  CHECK(contains(laws::skipped_step_changes_nothing<fp32>(faulty<fault::counts_steps>{}),
                 "differs from one without it"));
  CHECK(contains(laws::skipped_step_changes_nothing<fp64>(faulty<fault::writes_in_propose>{}),
                 "changed a weight"));
  // accept does nothing wrong
  CHECK(contains(laws::skipped_step_changes_nothing<fp32>(faulty<fault::loses_nan>{}),
                 "a gradient with a NaN was applied: propose made it finite"));
  CHECK(laws::is_valid_and_described(faulty<fault::refuses>{}) == "invalid");
}
