// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every rule must obey, for a rule of your own too:
//
//   TEST_CASE("my rule obeys the laws of rules") { optimizer_laws(my_rule{.momentum = 0.9}); }
//
// Each law is a function that returns what is wrong, or nothing, and may be asked alone; only
// `optimizer_laws` needs doctest. They run on one rank. What a rule computes is not theirs to know:
// that wants golden numbers.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/bowl.hpp>
#include <cordee/testing/workbench.hpp>
#include <cordee/train/trainer.hpp>

namespace cordee::inline CORDEE_ABI {

struct optimizer_law_options {
  /// A rate of zero moves nothing, whatever came before. Not so where the rate stands inside the
  /// momentum, as in lars.
  bool rests = true;
};

namespace laws {

/// The padding between segments is zero weight and zero gradient, and must stay what it is.
template <class Real, class O>
std::string zero_stays_zero(const O& rule) {
  workbench<O, Real> bench(rule);
  for (int k = 0; k < 4; ++k) bench.step(0.5);
  for (const Real x : bench.weights())
    if (x != 0) return text("a zero weight with a zero gradient became ", x);
  bench.start(1);
  for (int k = 0; k < 4; ++k) bench.draw_gradient(static_cast<std::uint64_t>(k)).step(0.5);
  const std::string where = bench.dirt_between_segments();
  return where.empty() ? "" : text("the padding behind \"", where, "\" is no longer zero");
}

/// With a rate of zero a first step moves nothing; with `rests`, no step does.
template <class Real, class O>
std::string zero_rate_moves_nothing(const O& rule, bool rests = true) {
  workbench<O, Real> bench(rule);
  for (const int before : {0, 3}) {
    if (before > 0 && !rests) break;
    bench.start(2);
    for (int k = 0; k < before; ++k) bench.draw_gradient(3).step(0.1);
    const auto weights = bench.weights();
    bench.draw_gradient(4).step(0);
    if (bench.weights() != weights)
      return text("a step at rate 0 moved the weights, after ", before, " steps");
  }
  return {};
}

/// Sums have an order of their own, not the workers'.
template <class Real, class O>
std::string workers_change_no_bit(const O& rule) {
  std::vector<Real> first;
  for (const int workers : {1, 2, 3, 5}) {
    workbench<O, Real> bench(rule, workers);
    bench.start(5);
    for (int k = 0; k < 3; ++k) bench.draw_gradient(static_cast<std::uint64_t>(k)).step(0.1);
    if (workers == 1) first = bench.state();
    if (!same_bits(bench.state(), first))
      return text("with ", workers, " workers the bits are not those of one");
  }
  return {};
}

/// What is said bucket by bucket is what would be said of the whole.
template <class Real, class O>
std::string buckets_change_no_bit(const O& rule) {
  workbench<O, Real> whole(rule), parts(rule);
  whole.start(6);
  parts.start(6);
  for (int k = 0; k < 4; ++k) {
    whole.draw_gradient(static_cast<std::uint64_t>(k)).step(0.1);
    parts.draw_gradient(static_cast<std::uint64_t>(k)).step(0.1, workbench<O, Real>::by_segment);
    if (!same_bits(whole.said(), parts.said()))
      return "what is said of the segments one by one is not what is said of all";
    if (!same_bits(whole.state(), parts.state()))
      return "a step whose buckets spoke one by one left other bits than a step of the whole";
  }
  return {};
}

/// What is said is a bucket's range of a plane; an eager rule says it without writing what a
/// skipped step must leave alone.
template <class Real, class O>
std::string says_a_range_and_writes_no_state(const O& rule) {
  workbench<O, Real> bench(rule);
  bench.start(7);
  for (int k = 0; k < 3; ++k) {
    bench.draw_gradient(static_cast<std::uint64_t>(k));
    const auto before = bench.state();
    const std::string wrong = bench.propose_only(0.1);
    if (!wrong.empty()) return wrong;
    if (O::eager && !same_bits(bench.state(), before))
      return "an eager rule wrote a weight or a slot in propose";
    bench.step(0.1);
  }
  return {};
}

/// A rule is a constant value: a copy, or a second run, does the same.
template <class Real, class O>
std::string keeps_no_secrets(const O& rule) {
  std::vector<Real> first;
  for (int turn = 0; turn < 3; ++turn) {
    const O copy = rule;
    workbench<O, Real> bench(turn == 1 ? copy : rule);
    bench.start(8);
    for (int k = 0; k < 3; ++k) bench.draw_gradient(static_cast<std::uint64_t>(k)).step(0.1);
    if (turn == 0) first = bench.state();
    if (!same_bits(bench.state(), first)) return "a second run of the same rule did something else";
  }
  return {};
}

/// Gradients that are finite, if absurd, leave a state that is finite: 1e30 and 1e-30 in single
/// precision, whose squares no float holds, the smallest number there is, alone and among zeros;
/// and one so large, again and again, that no number holds a few of it.
template <class Real, class O>
std::string finite_stays_finite(const O& rule) {
  const Real huge = std::is_same_v<Real, float> ? Real(1e30) : Real(1e145), tiny = 1 / huge;
  const Real least = std::numeric_limits<Real>::denorm_min();
  const Real vast = std::numeric_limits<Real>::max() / 8;  // of which normal numbers are up to 5
  const auto wrong = [&](workbench<O, Real>& bench, int step) -> std::string {
    for (const Real x : bench.state())
      if (!std::isfinite(x)) return text(" made ", x, " in step ", step);
    return {};
  };
  for (const Real start : {Real{0}, tiny, Real{1}, huge})
    for (const Real size : {huge, tiny, least, Real{0}, Real{1}})
      for (const bool sparse : {false, true}) {
        workbench<O, Real> bench(rule);
        bench.start(9, start);
        for (int k = 0; k < 8; ++k) {
          // Odd and even steps alternate between the size and something ordinary, then stay.
          const Real now = k < 4 && k % 2 == 1 ? Real{1} : size;
          bench.draw_gradient(static_cast<std::uint64_t>(k), now, sparse);
          const std::string made = wrong(bench.step(k == 0 ? 0.0 : 0.1), k);
          if (!made.empty())
            return text("gradients of size ", size, sparse ? ", most of them zero," : "",
                        " on weights of size ", start, made);
        }
      }
  for (const Real start : {Real{1}, vast})
    for (const int rate : {0, 1}) {
      workbench<O, Real> bench(rule);
      bench.start(9, start);
      for (int k = 0; k < 16; ++k) {
        const bool rests = k % 4 == 3;  // from that gradient, at the other rate
        bench.draw_gradient(0, rests ? Real{0} : vast);
        const std::string made = wrong(bench.step(rests ? 1 - rate : rate), k);
        if (!made.empty())
          return text("the same gradient of size ", vast, " on weights of size ", start, made);
      }
    }
  return {};
}

/// A step whose gradient is not finite leaves every bit, and the steps after it are those of a run
/// in which it never was: what counts steps, counts those applied. (A rule that mixes positions
/// goes on with a zero gradient instead, and stays finite.)
template <class P, class O>
std::string a_skipped_step_never_was(const O& rule) {
  using Real = typename P::master;
  bowl<P> poisoned, healthy;
  const trainer_options buckets{.bucket_bytes = 4096};
  trainer run{poisoned, rule, constant{.rate = 0.1}, solo{}, buckets};
  trainer other{healthy, rule, constant{.rate = 0.1}, solo{}, buckets};
  const std::array one{batch<cpu>{{}, {}, 1, 1, 1}};
  const auto state = [](auto& of) {
    std::vector<Real> all(of.weights().begin(), of.weights().end());
    for (int k = 0; k < O::slots; ++k) all.insert(all.end(), of.slot(k).begin(), of.slot(k).end());
    return all;
  };
  for (int k = 0; k < 4; ++k) {
    if (k == 0 || k == 2) {
      const auto before = state(run);
      poisoned.poisoned = true;
      run.step(one, k);
      poisoned.poisoned = false;
      if constexpr (O::needs == agreement::mixing) {
        for (const Real x : state(run))
          if (!std::isfinite(x)) return "a gradient that is not finite reached the state";
      } else if (!same_bits(state(run), before)) {
        return "a skipped step changed a weight or a slot";
      }
    }
    run.step(one, k);
    other.step(one, k);
    if (O::needs != agreement::mixing && !same_bits(state(run), state(other)))
      return "after a skipped step the rule went on as if it had been applied";
  }
  return {};
}

/// A rule that can be asked has nothing against itself, and it says what it is.
template <class O>
std::string speaks_for_itself(const O& rule) {
  try {
    check_rule(rule);
  } catch (const std::exception& e) {
    return e.what();
  }
  if constexpr (requires { rule.describe(); })
    if (std::string(rule.describe()).empty()) return "its description is empty";
  return {};
}

}  // namespace laws

/// All laws of rules, in single and double precision. One line inside a TEST_CASE.
template <class O>
void optimizer_laws(const O& rule, const optimizer_law_options& options = {}) {
  static_assert(OptimizerOn<O, float, cpu> && OptimizerOn<O, double, cpu>,
                "a rule is a copyable value that models OptimizerOn in float and in double");
  const auto holds = [](const std::string& complaint) { CHECK(complaint == ""); };
  const auto hold = [&]<class P>(P) {
    using Real = typename P::master;
    CAPTURE(P::name);
    holds(laws::zero_stays_zero<Real>(rule));
    holds(laws::zero_rate_moves_nothing<Real>(rule, options.rests));
    holds(laws::workers_change_no_bit<Real>(rule));
    holds(laws::buckets_change_no_bit<Real>(rule));
    holds(laws::says_a_range_and_writes_no_state<Real>(rule));
    holds(laws::keeps_no_secrets<Real>(rule));
    holds(laws::finite_stays_finite<Real>(rule));
  };
  holds(laws::speaks_for_itself(rule));
  hold(fp32{});
  hold(fp64{});
  holds(laws::a_skipped_step_never_was<fp32>(rule));  // a trainer, long to compile: one will do
}

}  // namespace cordee::inline CORDEE_ABI
