// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of failures in a run of synchronous steps: when a rank fails all stop, and the run
// restarts from its last checkpoint.
//
//   M   = mtbf / ranks                     the run's mean time between failures
//   tau = sqrt(2 C M)                      between checkpoints of C seconds; Young, CACM 17 (1974)
//   E   = M e^(R/M) (e^((tau + C)/M) - 1)  mean time of tau seconds of steps and a checkpoint,
//                                          with restarts of R seconds; Daly, FGCS 22 (2006)
//
// Steps wait for checkpoints. A failure during a checkpoint loses it; one during a restart repeats
// the restart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/option_range.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

// ---- failures: at which second after `time` the next one is, `before` having been. Their optional
// check(), which simulate_failures calls, throws usage_error for an invalid option. ----

/// Ranks that fail independently, each once per `mtbf` seconds on average, whatever its age.
struct exponential_failures {
  /// Mean time between failures of one rank. Unit: seconds. Range: finite, above 0, else
  /// usage_error.
  double mtbf;
  /// Number of ranks that can fail. Range: 1 or more, else usage_error.
  int ranks = 1;
  std::uint64_t seed = 1;  ///< Selects the failures. Range: any.
  /// Time in seconds of the next failure after `time`, when `before` failures have occurred.
  double operator()(double time, std::int64_t before) const {
    random_sequence random(seed, purpose::synthetic, 0, static_cast<std::uint64_t>(before));
    return time - mtbf / ranks * std::log1p(-random.uniform());
  }
  /// @throws usage_error for an option outside its range.
  void check() const {
    detail::core::expects_positive("exponential_failures", "mtbf", mtbf);
    if (ranks < 1) detail::core::refuse("exponential_failures", "ranks", ranks, "1 or more");
  }
};
/// Failures at given times.
struct failures_at {
  /// The times. Unit: seconds. Range: ascending, without NaN, else usage_error.
  std::vector<double> seconds;
  /// The first of the times after `time`; infinity if there is none.
  double operator()(double time, std::int64_t) const {
    const auto next = std::upper_bound(seconds.begin(), seconds.end(), time);
    return next == seconds.end() ? std::numeric_limits<double>::infinity() : *next;
  }
  /// @throws usage_error for times that do not ascend.
  void check() const {
    for (std::size_t k = 0; k < seconds.size(); ++k)
      if (!(seconds[k] >= seconds[k == 0 ? 0 : k - 1]))
        throw usage_error(concat("failures_at: seconds[", k, "] is ", seconds[k],
                                 ", but times must ascend: sort them"));
  }
};

/// What checkpoints and restarts cost, and when checkpoints are written.
struct checkpointing {
  /// Time to write a checkpoint, and from a failure to the next step. Unit: seconds. Range: finite,
  /// 0 or more, else usage_error.
  double checkpoint_seconds = 0, restart_seconds = 0;
  /// Steps between checkpoints; the last step is always saved. Range: 1 or more, else usage_error.
  std::int64_t interval = 1;
};

/// Time of a run with failures: seconds = steps + checkpoints + lost + restarts.
struct interrupted_run {
  /// Time of the whole run, and of the checkpoints that were not lost. Unit: seconds.
  double seconds = 0, checkpoints = 0;
  /// Time of steps and checkpoints that failures undid, and of restarts. Unit: seconds.
  double lost = 0, restarts = 0;
  std::int64_t failures = 0;  ///< Number of failures, those during restarts included.
};

/// Steps between checkpoints by Young's formula, at least one.
/// @throws usage_error unless all are finite and positive; `checkpoint_seconds` may be 0.
inline std::int64_t young_interval(double step_seconds, double checkpoint_seconds, double mtbf,
                                   int ranks) {
  detail::core::expects_positive("young_interval", "step_seconds", step_seconds);
  detail::core::expects_not_negative("young_interval", "checkpoint_seconds", checkpoint_seconds);
  exponential_failures{mtbf, ranks}.check();
  const double seconds = std::sqrt(2 * checkpoint_seconds * mtbf / ranks);
  return std::max<std::int64_t>(1, std::llround(std::min(seconds / step_seconds, 1e15)));
}

namespace detail::comm {

inline void expect_sensible(std::int64_t steps, double step_seconds, const checkpointing& c) {
  expects(steps >= 0, "failures: the number of steps is 0 or more");
  core::expects_positive("failures", "step_seconds", step_seconds);
  core::expects_not_negative("checkpointing", "checkpoint_seconds", c.checkpoint_seconds);
  core::expects_not_negative("checkpointing", "restart_seconds", c.restart_seconds);
  expects(c.interval > 0, "checkpointing: interval is 1 step or more");
}

}  // namespace detail::comm

/// Runs `steps` steps, restarting from the last checkpoint after failures. @throws error if the run
/// has not ended after a million failures; usage_error for a negative number of steps, steps of
/// zero length, or `c` or `failures` outside their ranges.
template <class Failures>
interrupted_run simulate_failures(std::int64_t steps, double step_seconds, const checkpointing& c,
                                  const Failures& failures) {
  detail::comm::expect_sensible(steps, step_seconds, c);
  if constexpr (requires { failures.check(); }) failures.check();
  interrupted_run run;
  double next = failures(0.0, 0);
  const auto fail = [&](double& spent) {
    spent += next - run.seconds;
    run.seconds = next;
    if (++run.failures == 1'000'000)
      throw error(concat("simulate_failures: after a million failures no checkpoint of ",
                         c.interval, " steps is reached; make the interval shorter"));
    next = failures(run.seconds, run.failures);
  };
  for (std::int64_t done = 0; done < steps;) {
    const std::int64_t n = std::min(c.interval, steps - done);
    const double end = run.seconds + static_cast<double>(n) * step_seconds + c.checkpoint_seconds;
    if (next >= end) {
      done += n;
      run.seconds = end;
      run.checkpoints += c.checkpoint_seconds;
      continue;
    }
    fail(run.lost);
    while (next < run.seconds + c.restart_seconds) fail(run.restarts);
    run.seconds += c.restart_seconds;
    run.restarts += c.restart_seconds;
  }
  return run;
}

/// Expected seconds of simulate_failures under exponential_failures.
/// @throws usage_error for arguments outside their ranges.
inline double expected_seconds(std::int64_t steps, double step_seconds, const checkpointing& c,
                               double mtbf, int ranks) {
  detail::comm::expect_sensible(steps, step_seconds, c);
  exponential_failures{mtbf, ranks}.check();
  const double mean = mtbf / ranks;
  const auto part = [&](std::int64_t n) {
    const double seconds = static_cast<double>(n) * step_seconds + c.checkpoint_seconds;
    return mean * std::exp(c.restart_seconds / mean) * std::expm1(seconds / mean);
  };
  const std::int64_t rest = steps % c.interval;
  return static_cast<double>(steps / c.interval) * part(c.interval) + (rest > 0 ? part(rest) : 0);
}

}  // namespace cordee::inline CORDEE_ABI
