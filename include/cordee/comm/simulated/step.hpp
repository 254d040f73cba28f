// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Training steps of simulated ranks: buckets are sent while backward runs, in the courier's order.
//
//   begin      when the rank has made its last update and the loader has the next batch, which it
//              starts when the rank takes one; with an adversary (nn/adversary.hpp), when its
//              copies are ready, which it starts with the previous step: in parallel on idle
//              processors, else the step is that much longer
//   bucket b   is posted when b - 1 has arrived and backward has finished its tensors
//   update     when backward has ended and the last bucket has arrived
//
// With a period of several steps (local steps) whole weights are sent, after the update of each
// period-th step. A rank's computation may be slower in some steps: see stragglers.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/simulated/stragglers.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/option_range.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/phantom.hpp>

namespace cordee::inline CORDEE_ABI {

/// What one rank computes in a step, in seconds, and the parameters whose gradients it sends.
struct step_profile {
  /// Time to make the next batch, of the forward pass and of the update. Unit: seconds. Range:
  /// finite, 0 or more, else usage_error.
  double loader = 0, forward = 0, optimizer = 0;
  /// Trainable tensors, in the order of the forward pass; `power_sgd` needs their shapes, too, as
  /// parameter_list::segments has them.
  std::vector<segment> table;
  /// Time of backward in each tensor's layer, divided among the layer's tensors. Unit: seconds.
  /// Range: one for each tensor, finite, 0 or more, else usage_error.
  std::vector<double> backward;
  /// Time to make adversarial copies; their passes count elsewhere. Unit: seconds. Range: finite, 0
  /// or more, else usage_error.
  double adversary = 0;

  /// The sum of `backward`, in seconds.
  [[nodiscard]] double backward_total() const {
    double sum = 0;
    for (const double seconds : backward) sum += seconds;
    return sum;
  }
  /// Seconds of forward, backward and update: a step without waits and adversary.
  [[nodiscard]] double total() const { return forward + backward_total() + optimizer; }
};

/// Which steps simulate_steps runs.
struct step_options {
  /// Number of steps. Range: 1 or more, else usage_error.
  std::int64_t steps = 1;
  /// Steps between exchanges; from 2 on, weights are exchanged (local steps). Range: 1 or more,
  /// else usage_error.
  int period = 1;
  /// Whether buckets are sent while backward runs, or only after it.
  bool overlap = true;
  /// Whether adversarial copies are made in parallel with the step, or lengthen it.
  bool idle_processors = true;
  /// Bucket size, as trainer_options::bucket_bytes. Unit: bytes. Range: any; 1 makes a bucket for
  /// each tensor. Default: simulated::bucket_bytes, that of a GPU.
  std::size_t bucket_bytes = 0;
};

/// What simulate_steps returns.
struct simulated_steps {
  /// Length of a step on the rank that ends last; mean over steps. Unit: seconds.
  double seconds = 0;
  /// Part of it spent waiting for messages; mean over steps and ranks. Unit: seconds.
  double exposed = 0;
  simulation totals{};  ///< Totals over all steps.

  /// Share of a step in which a rank waits for messages; NaN if steps have zero length.
  [[nodiscard]] double exposed_share() const { return exposed / seconds; }
};

namespace detail::comm {

[[gnu::cold]] inline void check_profile(const step_profile& step) {
  expects(step.table.size() == step.backward.size(), "simulate_steps: a time for each tensor");
  const auto check = [](const char* member, double seconds) {
    core::expects_not_negative("step_profile", member, seconds);
  };
  check("loader", step.loader);
  check("forward", step.forward);
  check("optimizer", step.optimizer);
  check("adversary", step.adversary);
  for (const double seconds : step.backward) check("backward", seconds);
}

/// One rank's part, which returns the seconds in which it waited for messages alone.
template <class R, class Stragglers>
double run_steps(const simulated& rank, const R& reducer, const step_profile& step,
                 std::span<const bucket> buckets, const step_options& o,
                 const Stragglers& stragglers) {
  const phantom::stream stream = rank.device().make_stream();
  std::size_t largest = 0;
  for (const bucket& b : buckets) largest = std::max(largest, b.size);
  buffer<float, phantom> x(phantom{}, largest);
  buffer<std::byte, phantom> scratch(phantom{}, largest_scratch<float>(reducer, buckets));
  const auto wait_until = [&rank](double time) { rank.compute(std::max(0.0, time - rank.now())); };
  double loaded = step.loader, exposed = 0, copied = 0;
  for (std::int64_t k = 0; k < o.steps; ++k) {
    const double factor = stragglers(rank.rank(), k);
    wait_until(std::max(loaded, copied));
    loaded = rank.now() + step.loader;
    if (k == 0 || !o.idle_processors) rank.compute(factor * step.adversary);  // none was ahead
    copied = o.idle_processors ? rank.now() + factor * step.adversary : 0;
    const double forward_end = rank.now() + factor * step.forward;
    const double backward_end = forward_end + factor * step.backward_total();
    const bool updates_first = o.period > 1;
    const double computed = backward_end + (updates_first ? factor * step.optimizer : 0);
    if (updates_first) wait_until(computed);
    if ((k + 1) % o.period == 0) {
      double ready = forward_end;
      std::size_t first = step.table.size();
      for (const bucket& b : buckets) {
        for (; first > b.first_segment; --first) ready += factor * step.backward[first - 1];
        wait_until(o.overlap ? ready : backward_end);
        const span_on<float, phantom> values{x.span().data, b.size};
        bucket_view<float, phantom, R::slots> view{&b, values, {}, scratch.span()};
        view.slots.fill(values);
        reducer.mix(view, {.step = k, .round = k}, stream);
      }
    }
    exposed += rank.now() - computed;
    if (!updates_first) rank.compute(factor * step.optimizer);
  }
  return exposed;
}

}  // namespace detail::comm

/// Simulates steps of `ranks` ranks that all compute `step` and mix with the reducer make(comm).
/// @throws usage_error for a profile, stragglers or options outside their ranges; error if a rank
/// fails.
template <class Make, class Stragglers = no_stragglers>
simulated_steps simulate_steps(int ranks, const step_profile& step, const Make& make,
                               const simulated::options& network, const step_options& o = {},
                               const Stragglers& stragglers = {}) {
  detail::comm::check_profile(step);
  if constexpr (requires { stragglers.check(); }) stragglers.check();
  expects(o.steps > 0 && o.period > 0, "simulate_steps: steps and period are positive");
  const std::size_t limit = detail::comm::message_limit<std::invoke_result_t<Make, simulated>>(
      o.bucket_bytes > 0 ? o.bucket_bytes : simulated::bucket_bytes);
  const auto buckets = detail::core::make_buckets(step.table, limit / sizeof(float));
  simulated_steps result;
  result.totals = simulated::launch(
      ranks,
      [&](simulated comm) {
        const auto reducer = make(comm);
        if constexpr (requires { reducer.check(std::span<const segment>(step.table)); })
          reducer.check(step.table);
        result.exposed += detail::comm::run_steps(comm, reducer, step, buckets, o, stragglers);
      },
      network);
  result.seconds = result.totals.path.seconds / static_cast<double>(o.steps);
  result.exposed /= static_cast<double>(o.steps) * ranks;
  return result;
}

}  // namespace cordee::inline CORDEE_ABI
