// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every rule obeys the laws, and every law finds the rule that breaks it.
#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

using namespace cordee;

namespace {

constexpr optimizer_law_options rate_inside{.rests = false};

}  // namespace

TEST_CASE("sgd obeys the laws of rules") {
  optimizer_laws(sgd{});
  optimizer_laws(sgd{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  optimizer_laws(sgd{.momentum = 0.5, .dampening = 0.5, .decays = trainable});
}
TEST_CASE("velocity_sgd obeys the laws of rules") {
  optimizer_laws(velocity_sgd{.weight_decay = 0.1, .nesterov = true});
  optimizer_laws(velocity_sgd{.correction = false}, rate_inside);
}
TEST_CASE("lars obeys the laws of rules") {
  optimizer_laws(lars{.trust = 0.02, .nesterov = true}, rate_inside);
  optimizer_laws(lars{.weight_decay = 0, .adapts = trainable}, rate_inside);
}
TEST_CASE("lars_rate_outside obeys the laws of rules") {
  optimizer_laws(lars_rate_outside{.trust = 0.02, .nesterov = true});
  optimizer_laws(lars_rate_outside{.weight_decay = 0, .epsilon = 0, .adapts = trainable});
}
TEST_CASE("lars_unscaled obeys the laws of rules") {
  optimizer_laws(lars_unscaled{.trust = 0.02});
  optimizer_laws(lars_unscaled{.weight_decay = 0, .epsilon = 0, .adapts = trainable});
}
TEST_CASE("lamb and nvlamb obey the laws of rules") {
  optimizer_laws(lamb{});
  optimizer_laws(lamb{.beta1 = 0, .beta2 = 0, .weight_decay = 0});
  optimizer_laws(nvlamb{});
}
TEST_CASE("adamw obeys the laws of rules") {
  optimizer_laws(adamw{});
  optimizer_laws(adamw{.beta1 = 0, .epsilon = 1e-300, .decays = trainable});
  optimizer_laws(adamw{.beta2 = 0, .epsilon = 1e-300});
}
TEST_CASE("local obeys the laws of rules around every rule") {
  optimizer_laws(local{sgd{.weight_decay = 0.1}, 2});
  optimizer_laws(local{lars{}, 3}, rate_inside);
  optimizer_laws(local{lamb{}});
}
TEST_CASE("clip obeys the laws of rules around every rule, local included") {
  optimizer_laws(clip{sgd{}, 0.5});
  optimizer_laws(clip{lars{}, 0.5}, rate_inside);
  optimizer_laws(clip{lamb{}, 1.0});
  optimizer_laws(clip{clip{adamw{}, 1.0}, 0.5, 0.0});
  optimizer_laws(clip{local{sgd{}, 2}, 0.5});
  optimizer_laws(local{clip{lars{}, 0.5}, 2}, rate_inside);
}
TEST_CASE("a rule that mixes positions obeys the laws of rules") {
  optimizer_laws(decentlam{}, rate_inside);
  optimizer_laws(decentlam{.nesterov = true, .corrected = true}, rate_inside);
  optimizer_laws(decentlam_over{lars{}}, rate_inside);
  optimizer_laws(clip{decentlam{}, 0.5}, rate_inside);
}

// Rules that are wrong in one way each
// --------------------------------------------------------------
namespace {

/// sgd with a fault; Fault is told apart by its type.
enum class fault {
  none,
  drifts,         // adds a constant
  over_edges,     // writes behind its segments
  ignores_rate,   // forgets what a rate is
  counts_chunks,  // does something at the place where a worker begins
  first_bucket,   // does something at the place where a view begins
  early,          // writes a slot while backward runs
  own_memory,     // says something that is in no plane
  secret,         // counts its steps in itself
  naive,          // squares in single precision
  adds_up,        // lets its state overflow
  by_step,        // corrects by steps instead of applied ones
  unguarded,      // writes weights although they will be skipped
  complains       // refuses itself
};

template <class Real>
Real finite(Real x) {
  return std::clamp(x, std::numeric_limits<Real>::lowest(), std::numeric_limits<Real>::max());
}

template <fault F>
struct faulty {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = F != fault::unguarded;
  static constexpr int slots = 1;
  static constexpr when norms = when::never;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    if (F == fault::early) v.slots[0][0] += v.grads[0];
    if (F == fault::unguarded && v.weights.size > 0) v.weights[0] += 1;
    if (F == fault::first_bucket && v.grads.size > 0) v.grads[0] += 1;
    if (F == fault::own_memory) return v.grads.subspan(0, v.grads.size / 2);
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    static int steps = 0;
    ++steps;
    for (const segment& own : v.segments) {
      const std::size_t first = own.offset - v.segments.front().offset;
      for (std::size_t i = first; i < first + own.size; ++i) {
        Real g = v.grads[i];
        if (F == fault::drifts) g += 1;
        if (F == fault::naive && g != 0) g /= std::sqrt(g * g);
        if (F == fault::secret) g *= static_cast<Real>(steps);
        if (F == fault::by_step) g /= static_cast<Real>(now.step + 1);
        v.slots[0][i] = Real(0.9) * v.slots[0][i] + g;
        if (F != fault::adds_up && F != fault::naive) v.slots[0][i] = finite(v.slots[0][i]);
        v.weights[i] =
            finite(v.weights[i] -
                   static_cast<Real>(F == fault::ignores_rate ? 1.0 : now.rate) * v.slots[0][i]);
      }
    }
    if (F == fault::over_edges) v.weights[v.segments[0].end()] += v.grads[0];
    if (F == fault::counts_chunks && s.workers != nullptr)
      v.weights[0] += static_cast<Real>(s.workers->size());
  }
  void check() const {
    if (F == fault::complains) throw misuse("no good");
  }
  [[nodiscard]] std::string describe() const { return "faulty"; }
};

bool names(const std::string& complaint, const char* part) {
  CAPTURE(complaint);
  return complaint.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the laws of rules find nothing in a rule without a fault") {
  optimizer_laws(faulty<fault::none>{});
}
TEST_CASE("each law of rules finds the fault that it is there for") {
  CHECK(names(laws::zero_stays_zero<double>(faulty<fault::drifts>{}), "a zero weight"));
  CHECK(names(laws::zero_stays_zero<float>(faulty<fault::over_edges>{}), "behind \"stem\""));
  CHECK(names(laws::zero_rate_moves_nothing<double>(faulty<fault::ignores_rate>{}),
              "at rate 0 moved the weights, after 0 steps"));
  CHECK(names(laws::zero_rate_moves_nothing<double>(velocity_sgd{.correction = false}),
              "after 3 steps"));
  CHECK(names(laws::workers_change_no_bit<float>(faulty<fault::counts_chunks>{}), "workers"));
  CHECK(names(laws::buckets_change_no_bit<float>(faulty<fault::first_bucket>{}), "what is said"));
  CHECK(names(laws::says_a_range_and_writes_no_state<float>(faulty<fault::early>{}), "eager"));
  CHECK(names(laws::says_a_range_and_writes_no_state<float>(faulty<fault::own_memory>{}), "range"));
  CHECK(names(laws::keeps_no_secrets<double>(faulty<fault::secret>{}), "second run"));
  CHECK(names(laws::finite_stays_finite<float>(faulty<fault::naive>{}), "gradients of size 1e-30"));
  CHECK(names(laws::finite_stays_finite<double>(faulty<fault::adds_up>{}), "the same gradient"));
  CHECK(names(laws::a_skipped_step_never_was<fp32>(faulty<fault::by_step>{}), "went on as if"));
  CHECK(
      names(laws::a_skipped_step_never_was<fp64>(faulty<fault::unguarded>{}), "changed a weight"));
  CHECK(laws::speaks_for_itself(faulty<fault::complains>{}) == "no good");
}
