// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of optimizers, for an optimizer of your own:
//
//   TEST_CASE("my optimizer obeys the laws") { CHECK(optimizer_laws(my_optimizer{}) == ""); }
//
// Each law runs on one rank and returns its first violation, or an empty string. The laws do not
// test the update itself: that takes golden numbers.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/optimizer_check.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/optimizer_fixture.hpp>
#include <cordee/testing/quadratic_model.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of optimizer_laws.
struct optimizer_law_options {
  /// Whether a step at learning rate 0 must move no weight. False if the learning rate is inside
  /// the momentum, as in lars: after other steps the momentum then moves the weights.
  bool zero_learning_rate_moves_nothing = true;
};

namespace laws {

/// Checks that zero weights with zero gradients stay zero, including the padding between segments.
template <class Real, class O>
std::string zero_stays_zero(const O& optimizer) {
  optimizer_fixture<O, Real> fixture(optimizer);
  for (int k = 0; k < 4; ++k) fixture.step(0.5);
  for (const Real x : fixture.weights())
    if (x != 0)
      return concat("a zero weight with zero gradients became ", x,
                    ": add no constant, and divide by nothing that may be 0");
  fixture.reset(1);
  for (int k = 0; k < 4; ++k) fixture.set_gradient(static_cast<std::uint64_t>(k)).step(0.5);
  const std::string segment = fixture.nonzero_padding();
  return segment.empty() ? ""
                         : concat("the padding behind \"", segment,
                                  "\" became nonzero: write segments alone, by segmented_for");
}

/// Checks that a first step at learning rate 0 moves no weight and, unless `first_step_only`, no
/// later one does.
template <class Real, class O>
std::string zero_learning_rate_moves_nothing(const O& optimizer, bool first_step_only = false) {
  optimizer_fixture<O, Real> fixture(optimizer);
  for (const int before : {0, 3}) {
    if (before > 0 && first_step_only) break;
    fixture.reset(2);
    for (int k = 0; k < before; ++k) fixture.set_gradient(3).step(0.1);
    const auto weights = fixture.weights();
    fixture.set_gradient(4).step(0);
    if (fixture.weights() != weights)
      return concat("a step at learning rate 0 moved the weights, after ", before, " steps: ",
                    before == 0 ? "multiply the whole step by info.learning_rate"
                                : "take the learning rate out of the momentum, or test with "
                                  "{.zero_learning_rate_moves_nothing = false}");
  }
  return {};
}

/// Checks that the number of worker threads changes no bit.
template <class Real, class O>
std::string workers_change_no_bit(const O& optimizer) {
  std::vector<Real> first;
  for (const int workers : {1, 2, 3, 5}) {
    optimizer_fixture<O, Real> fixture(optimizer, workers);
    fixture.reset(5);
    for (int k = 0; k < 3; ++k) fixture.set_gradient(static_cast<std::uint64_t>(k)).step(0.1);
    if (workers == 1) first = fixture.state();
    if (!same_bits(fixture.state(), first))
      return concat("with ", workers,
                    " workers the bits differ from those with 1: write elements from those of the "
                    "same index alone, and take sums from the view's norms");
  }
  return {};
}

/// Checks that the division into buckets changes no bit of the proposal or the step.
template <class Real, class O>
std::string buckets_change_no_bit(const O& optimizer) {
  optimizer_fixture<O, Real> whole(optimizer), parts(optimizer);
  whole.reset(6);
  parts.reset(6);
  for (int k = 0; k < 4; ++k) {
    whole.set_gradient(static_cast<std::uint64_t>(k)).step(0.1);
    parts.set_gradient(static_cast<std::uint64_t>(k))
        .step(0.1, optimizer_fixture<O, Real>::one_segment_per_bucket);
    if (!same_bits(whole.proposed(), parts.proposed()))
      return "proposals of single segments differ from the proposal of the whole: propose from "
             "each "
             "segment alone, or set eager = false";
    if (!same_bits(whole.state(), parts.state()))
      return "a step with one segment per bucket left other bits than a step with one bucket: "
             "compute from each segment alone";
  }
  return {};
}

/// Checks that a proposal is a bucket's range of a plane, and that an eager optimizer writes no
/// weight or slot in propose, since the step may still be skipped.
template <class Real, class O>
std::string proposes_a_range_and_writes_no_state(const O& optimizer) {
  optimizer_fixture<O, Real> fixture(optimizer);
  fixture.reset(7);
  for (int k = 0; k < 3; ++k) {
    fixture.set_gradient(static_cast<std::uint64_t>(k));
    const auto before = fixture.state();
    std::string violation = fixture.propose_violation(0.1);
    if (!violation.empty()) return violation;
    if (detail::optim::is_eager<O> && !same_bits(fixture.state(), before))
      return "an eager optimizer wrote a weight or a slot in propose: write it in accept, or set "
             "eager = false";
    fixture.step(0.1);
  }
  return {};
}

/// Checks that an optimizer is a constant value: a copy, or a second run, gives the same bits.
template <class Real, class O>
std::string is_stateless(const O& optimizer) {
  std::vector<Real> first;
  for (int run = 0; run < 3; ++run) {
    const O copy = optimizer;
    optimizer_fixture<O, Real> fixture(run == 1 ? copy : optimizer);
    fixture.reset(8);
    for (int k = 0; k < 3; ++k) fixture.set_gradient(static_cast<std::uint64_t>(k)).step(0.1);
    if (run == 0) first = fixture.state();
    if (!same_bits(fixture.state(), first))
      return "a second run of the same optimizer gave other bits: keep what changes in slots of "
             "the "
             "view, not in members or static variables";
  }
  return {};
}

/// Checks that finite gradients leave a finite state, however large or small they are: 1e30 and
/// 1e-30 in single precision, whose squares no float holds; the smallest number, alone and among
/// zeros; and repeatedly one so large that the sum of a few is infinite. For example, with the
/// moments of Adam:
///
///   const auto g = at.clamped(at(gradient), largest);          // its square is finite
///   at.put(v, beta2 * at(v) + (1 - beta2) * (g * g));
///   at.put(w, at.clamped(at(w) - learning_rate * g / (at.root(at(v)) + epsilon)));
template <class Real, class O>
std::string finite_stays_finite(const O& optimizer) {
  const Real huge = std::is_same_v<Real, float> ? Real(1e30) : Real(1e145), tiny = 1 / huge;
  const Real smallest = std::numeric_limits<Real>::denorm_min();
  const Real largest = std::numeric_limits<Real>::max() / 8;  // normal numbers reach 5 times that
  const auto violation = [](optimizer_fixture<O, Real>& fixture, int step) -> std::string {
    for (const Real x : fixture.state())
      if (!std::isfinite(x))
        return concat(" gave ", x, " in step ", step,
                      ": limit what may overflow, at.put(w, at.clamped(x)), and what is squared, "
                      "at.clamped(x, largest), before at.root(x) (optim/adamw.hpp)");
    return {};
  };
  for (const Real weight : {Real{0}, tiny, Real{1}, huge})
    for (const Real size : {huge, tiny, smallest, Real{0}, Real{1}})
      for (const bool sparse : {false, true}) {
        optimizer_fixture<O, Real> fixture(optimizer);
        fixture.reset(9, weight);
        for (int k = 0; k < 8; ++k) {
          // The size and 1 alternate in the first steps, then it is the size.
          const Real step_size = k < 4 && k % 2 == 1 ? Real{1} : size;
          fixture.set_gradient(static_cast<std::uint64_t>(k), step_size, sparse);
          const std::string result = violation(fixture.step(k == 0 ? 0.0 : 0.1), k);
          if (!result.empty())
            return concat("gradients of size ", size, sparse ? ", most of them zero," : "",
                          " on weights of size ", weight, result);
        }
      }
  for (const Real weight : {Real{1}, largest})
    for (const int learning_rate : {0, 1}) {
      optimizer_fixture<O, Real> fixture(optimizer);
      fixture.reset(9, weight);
      for (int k = 0; k < 16; ++k) {
        const bool pause = k % 4 == 3;  // no gradient, at the other learning rate
        fixture.set_gradient(0, pause ? Real{0} : largest);
        const std::string result =
            violation(fixture.step(pause ? 1 - learning_rate : learning_rate), k);
        if (!result.empty())
          return concat("the same gradient of size ", largest, " on weights of size ", weight,
                        result);
      }
    }
  return {};
}

/// Checks that a step whose gradient is not finite changes no bit, and that later steps are those
/// of a run without it: counters count applied steps. (A mixing optimizer continues with a zero
/// gradient instead, outer steps with what the ranks exchange; their state stays finite.)
template <class P, class O>
std::string skipped_step_changes_nothing(const O& optimizer) {
  using Real = typename P::master;
  constexpr bool moves = O::needs == agreement::mixing || detail::train::exchanges_differences<O>();
  quadratic_model<P> skipping, reference;
  const trainer_options options{.bucket_bytes = 4096};
  trainer run{skipping, optimizer, constant{.learning_rate = 0.1}, solo{}, options};
  trainer reference_run{reference, optimizer, constant{.learning_rate = 0.1}, solo{}, options};
  const std::array micro{batch<cpu>{{}, {}, 1, 1, 1}};
  const auto state = [](auto& of) {
    std::vector<Real> result(of.weights().begin(), of.weights().end());
    for (int k = 0; k < O::slots; ++k)
      result.insert(result.end(), of.slot(k).begin(), of.slot(k).end());
    return result;
  };
  for (int k = 0; k < 4; ++k) {
    if (k == 0 || k == 2) {
      const auto before = state(run);
      skipping.inject_nan = true;
      const bool applied = run.step(micro, k).finite();
      skipping.inject_nan = false;
      if (O::needs == agreement::exact && applied)
        return "a gradient with a NaN was applied: propose made it finite, and the step was not "
               "skipped; keep what is not finite (std::max, std::fmin and comparisons lose a NaN)";
      if constexpr (moves) {
        for (const Real x : state(run))
          if (!std::isfinite(x))
            return "a gradient that is not finite reached the state: write by kernels of the given "
                   "stream alone";
      } else if (!same_bits(state(run), before)) {
        return "a skipped step changed a weight or a slot: write them in accept alone";
      }
    }
    run.step(micro, k);
    reference_run.step(micro, k);
    if (!moves && !same_bits(state(run), state(reference_run)))
      return "after a skipped step the run differs from one without it: count info.applied, not "
             "info.step";
  }
  return {};
}

/// Checks that `check` accepts the optimizer, and that its description is not empty.
template <class O>
std::string is_valid_and_described(const O& optimizer) {
  try {
    detail::optim::check_optimizer(optimizer);
  } catch (const std::exception& e) {
    return e.what();
  }
  if constexpr (requires { optimizer.describe(); })
    if (std::string(optimizer.describe()).empty())
      return "the description is empty: describe() states every option";
  return {};
}

}  // namespace laws

/// All laws of optimizers, in single and double precision. Returns the violations, one per line;
/// empty if every law holds.
template <class O>
std::string optimizer_laws(const O& optimizer, const optimizer_law_options& options = {}) {
  static_assert(detail::optim::has_optimizer_members<O, float, cpu>() &&
                    detail::optim::has_optimizer_members<O, double, cpu>() &&
                    OptimizerOn<O, float, cpu> && OptimizerOn<O, double, cpu>,
                "an optimizer models OptimizerOn in float and in double");
  detail::testing::report r;
  const auto append_all = [&]<class P>(P) {
    using Real = typename P::master;
    const auto append = [&](const std::string& violation) {
      r.expect(violation.empty(), P::name, ": ", violation);
    };
    append(laws::zero_stays_zero<Real>(optimizer));
    append(laws::zero_learning_rate_moves_nothing<Real>(optimizer,
                                                        !options.zero_learning_rate_moves_nothing));
    append(laws::workers_change_no_bit<Real>(optimizer));
    append(laws::buckets_change_no_bit<Real>(optimizer));
    append(laws::proposes_a_range_and_writes_no_state<Real>(optimizer));
    append(laws::is_stateless<Real>(optimizer));
    append(laws::finite_stays_finite<Real>(optimizer));
  };
  r.append(laws::is_valid_and_described(optimizer));
  if (!r.violations().empty()) return r.violations();  // a trainer would refuse it
  append_all(fp32{});
  append_all(fp64{});
  // In one precision: a trainer takes long to compile.
  r.append(laws::skipped_step_changes_nothing<fp32>(optimizer));
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
