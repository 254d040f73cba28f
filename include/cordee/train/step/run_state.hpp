// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a run: every number that changes from step to step and is not in the arena's planes.
//
//   progress    step, applied, round; epoch and learning rate of the last step; skips in a row and
//               in a window; gradients of zero in a row
//   scale       the loss scale, and the finite steps since it last changed
//   fit         the loader's position, skipped steps, the sums of the epoch so far, the averages of
//               the gradient's noise, class names and normalization of the data
//   schedule    what an adaptive schedule has learned
//   reducer     what a reducer keeps beside its slots: an asynchronous server's weights and clock
//   preconditioner
//               sums of kfac's factors, of this rank's layers, between two computations of them
//   model       what a model keeps beside the planes: adversarial's weights of the step before
//   optimizer   numbers of each segment, O::segment_numbers: zero_one_adam's sum of learning rates,
//               one_bit_lamb's average ratio and last factor
//
// Random numbers are functions of seed, epoch, round and sample (core/random.hpp), hence they have
// no state. Each rank has its own run_state: counters of applied steps and loss scales differ
// between ranks that step alone.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/input/data_description.hpp>
#include <cordee/train/step/gradient_noise.hpp>
#include <cordee/train/step/loss_scale.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// The counters of a run, from which each step's step_info is made.
struct progress {
  std::int64_t step = 0, applied = 0, round = 0;
  double epoch = 0;                   // at which the last step began
  double previous_learning_rate = 0;  // of the last applied step
  int nonfinite_steps = 0;            // in a row
  int nonfinite_in_window = 0;        // of the steps since the last multiple of `window`
  int zero_gradients = 0;             // in a row
  static constexpr int window = 500;
  bool operator==(const progress&) const = default;

  [[nodiscard]] step_info at(double next_epoch, double learning_rate) const {
    return {step, applied, round, next_epoch, learning_rate, previous_learning_rate};
  }
  /// `exchanged`: whether the step posted a bucket.
  void advance(const step_outcome& outcome, bool exchanged) {
    if (step % window == 0) nonfinite_in_window = 0;
    if (!outcome.finite()) ++nonfinite_in_window;
    zero_gradients = outcome.has_zero_gradient() ? zero_gradients + 1 : 0;
    ++step;
    if (exchanged) ++round;
    epoch = outcome.info.epoch;
    nonfinite_steps = outcome.finite() ? 0 : nonfinite_steps + 1;
    if (!outcome.applied) return;
    ++applied;
    previous_learning_rate = outcome.info.learning_rate;
  }
};

/// Where the training loop is, which `fit` keeps.
struct fit_position {
  std::int64_t update = 0;                     // of the loader: the next one to train on
  std::int64_t samples = 0, global_batch = 0;  // of the loader, to which `update` refers
  std::uint64_t seed = 0;                      // of the loader, if it has one
  double epochs_per_update = 0;                // of the loader, which depends on its last_batch
  std::int64_t skipped = 0;                    // steps since fit began, summed over ranks
  metrics in_epoch{};                          // sums since the epoch began
  gradient_noise noise{};                      // if it is measured
  double epochs = 0;                           // of data seen before `update`
  /// Set by a restore: the next fit continues here. Sets the update of the loader `own` at which it
  /// does, and what `own` has of the steps before; prints a sentence where it is another update and
  /// `reports` is set (loader_position.hpp).
  void (*resume)(const fit_position& saved, fit_position& own, bool reports) = nullptr;
  /// Set with it: refuses a loader that, at own.update, is not at the epoch of before.
  void (*expect_same)(const fit_position& saved, const fit_position& own, double epochs) = nullptr;
};

/// The training loop's part.
struct fit_state : fit_position {
  data_description data{};  // what the weights were trained on
};

/// Beside the planes all that a run needs to continue with the same bits; of one rank.
struct run_state {
  train::progress progress{};
  loss_scale scale{};
  fit_state fit{};
  std::vector<double> schedule{};
  reducer_state reducer{};
  std::vector<double> preconditioner{}, model{}, optimizer{};
};

template <class P>
concept HasPreconditionerState = requires(P p, const run_state& state) {
  { p.state(std::int64_t{}) } -> std::same_as<std::vector<double>>;  // of a number of applied steps
  p.restore(state.preconditioner);
};

template <class Exchange>
using preconditioner_in = std::remove_cvref_t<decltype(std::declval<Exchange&>().preconditioner())>;

/// `own` with the state of the schedule, of the reducer, whose planes are of Real, and of what the
/// exchange has: the preconditioner, the optimizer's numbers. Collective where the reducer has a
/// state. Blocks the host.
template <class Real, class S, class R, class Exchange>
[[gnu::cold]] run_state collect_state(run_state own, S& schedule, const R& reducer,
                                      Exchange& exchange, typename Exchange::stream s) {
  if constexpr (detail::schedule::HasScheduleState<S>) {
    const std::span<const double> numbers = detail::schedule::state_of(schedule);
    own.schedule.assign(numbers.data(), numbers.data() + numbers.size());
  }
  if constexpr (comm::HasReducerState<R, Real>) {
    std::array<double, 1> barrier{};
    allreduce_host(reducer.comm, barrier, reduce_op::sum);  // all have ended the step before
    own.reducer = reducer.template state<Real>();
    allreduce_host(reducer.comm, barrier, reduce_op::sum);  // none pushes before it is read
  }
  if constexpr (HasPreconditionerState<preconditioner_in<Exchange>>)
    own.preconditioner = exchange.preconditioner().state(own.progress.applied);
  own.optimizer = exchange.settled(s).numbers().saved(s);
  return own;
}

/// Gives the schedule n numbers of state, where their count may change. Throws error where it is
/// another and may not.
template <class S>
std::span<double> schedule_numbers(S& schedule, std::size_t n) {
  auto&& numbers = detail::schedule::state_of(schedule);
  if constexpr (requires { numbers.resize(n); })
    numbers.resize(n);
  else if (numbers.size() != n)
    throw error(concat("the saved schedule has ", n, " numbers of state, this one has ",
                       numbers.size(), ": continue with the schedule that was saved"));
  return numbers;
}

/// Gives every rank rank 0's state of the schedule: processors may round differently what it
/// computes of equal losses, and a decision near its threshold would divide the ranks. Collective.
template <class Run>
void agree_on_schedule(Run& run) {
  using S = std::remove_cvref_t<decltype(run.schedule())>;
  if constexpr (detail::schedule::HasScheduleState<S>) {
    std::array<double, 1> count{
        static_cast<double>(std::span(detail::schedule::state_of(run.schedule())).size())};
    comm::broadcast(run.comm(), span_on<double, cpu>{count.data(), 1}, cpu::stream{});
    const auto numbers = schedule_numbers(run.schedule(), static_cast<std::size_t>(count[0]));
    comm::broadcast(run.comm(), span_on<double, cpu>{numbers.data(), numbers.size()},
                    cpu::stream{});
  }
}

/// Passes the parts of `state` to the schedule, the reducer, the preconditioner and the optimizer's
/// numbers. Throws error for a schedule of another kind, for factors of other layers, and for
/// numbers of another optimizer. Collective.
template <class Real, class S, class R, class Exchange>
[[gnu::cold]] void restore_policies(const run_state& state, S& schedule, const R& reducer,
                                    Exchange& exchange, typename Exchange::stream s) {
  if constexpr (detail::schedule::HasScheduleState<S>) {
    const std::span<double> numbers = schedule_numbers(schedule, state.schedule.size());
    std::copy(state.schedule.begin(), state.schedule.end(), numbers.begin());
  }
  if constexpr (comm::HasReducerState<R, Real>) {
    std::array<double, 1> barrier{};  // no rank still receives weights from a server
    allreduce_host(reducer.comm, barrier, reduce_op::sum);
    reducer.template restore<Real>(state.reducer);
    allreduce_host(reducer.comm, barrier, reduce_op::sum);  // none pushes before it is restored
  }
  if constexpr (HasPreconditionerState<preconditioner_in<Exchange>>)
    exchange.preconditioner().restore(state.preconditioner);
  exchange.settled(s).numbers().restore(state.optimizer, s);
}

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
