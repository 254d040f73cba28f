// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A scaled schedule without both batch sizes, and a schedule with a misspelt or mistyped optional
// member, do not compile.
#include <cordee/schedule/adaptive_batch.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/warmup.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

struct halving {
  double learning_rate = 0.1;
  double operator()(double) const { return learning_rate; }
#if defined(MISSPELLS_END)
  double ends() const { return 10; }
#elif defined(END_NOT_CONST)
  double end_epoch() { return 10; }
#else
  double end_epoch() const { return 10; }
#endif
#if defined(OBSERVES_ONE_NUMBER)
  void observe(double) {}
#else
  void observe(const observation& seen) { learning_rate /= seen.loss > 1 ? 2 : 1; }
#endif
#if defined(STATE_RETURNS_A_NUMBER)
  double state() { return learning_rate; }
#else
  std::span<double> state() { return {&learning_rate, 1}; }
#endif
#if defined(DESCRIBE_RETURNS_VOID)
  void describe() const {}
#else
  std::string describe() const { return "halving"; }
#endif
};

double own_schedule() {
  return learning_rate_of(halving{}, 0) + learning_rate_of(legw{1, halving{}, 256, 8192}, 0);
}

// Of this file, so that each case's scaled schedules are types of their own.
struct tuned_rate {
  double operator()(double) const { return 0.1; }
};

double learning_rates() {
  constexpr tuned_rate tuned{};
#if defined(ADAPTIVE_BATCH_INSIDE)
  return learning_rate_of(warmup{5, adaptive_batch{tuned}}, 0);
#elif defined(ADAPTIVE_BATCH_OF_PLATEAU)
  return adaptive_batch{training_plateau{}}(0);
#elif defined(LINEAR_WITHOUT_BATCHES)
  return linear_scaled{tuned}(0);
#elif defined(LINEAR_WITH_ONE_BATCH)
  return linear_scaled{tuned, 8192}(0);
#elif defined(SQRT_WITHOUT_A_REFERENCE)
  return sqrt_scaled<tuned_rate>{.inner = tuned, .global_batch = 8192}(0);
#elif defined(LEGW_WITHOUT_A_REFERENCE)
  return legw<tuned_rate>{.warmup_epochs = 1, .inner = tuned, .global_batch = 8192}(0);
#else
  return linear_scaled{tuned, 256, 8192}(0) + sqrt_scaled{tuned, 256, 8192}(0) +
         sqrt_scaled<tuned_rate>{.inner = tuned, .reference_batch = 256, .global_batch = 8192}(0) +
         legw{1, tuned, 256, 8192}(0) + learning_rate_of(adaptive_batch{warmup{5, tuned}}, 0);
#endif
}
