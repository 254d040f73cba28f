// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// AutoWU: a warm-up that ends by itself once the loss has passed its minimum (Kim et al. 2021).
//
//   warm-up    lr(e) = min (max/min)^(e/W),  W = warmup_share E   (or linear)
//              after each epoch `tests` Gaussian processes regress the losses of all updates, each
//              from a random subset; each votes by P(the minimum is in the past) > confidence
//   switch     after `patience` epochs with a majority: lr' = mean over processes of
//              min (lr/min)^x,  x in [0, 1] where the process has its minimum
//   hold       lr' until (1 - cooldown_share) E; left out with immediate_cooldown
//   cooldown   lr' (1 + cos(pi t/T)) / 2,  T the remaining updates, the first one with t = 1
//
// A loss that explodes has its minimum in the past and ends the warm-up, `patience` epochs later;
// if it explodes within a few updates the process, which is smooth, has its minimum near that
// point, on either side. Losses that are NaN or infinite are left out: if all are from some update
// on, nothing shows that the minimum is past. The trainer ends a run whose gradients remain so.
//
// A warm-up without a switch is followed by its last learning rate. Constants are gpytorch's and
// the authors', as is the order of decisions; the random subsets differ. W is not rounded to whole
// updates.
#pragma once

#include <array>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/random.hpp>
#include <cordee/schedule/gaussian_process.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::schedule {

/// The numbers of a state of auto_wu; the losses of all updates of the warm-up follow.
struct auto_wu_state {
  /// Places in the state.
  enum index : std::size_t {
    phase,       ///< 0: warm-up, 1: hold, 2: cooldown.
    held,        ///< The learning rate at the switch.
    cooled,      ///< The epoch of the last update before the cooldown.
    cooldown,    ///< The length of the cooldown, in epochs.
    last_epoch,  ///< The epoch of the last update observed; below 0 before the first.
    majorities,  ///< Consecutive epochs with a majority.
    tested,      ///< Epochs tested.
    process      ///< The first of the numbers of a gaussian_process.
  };
  /// Index of the first loss; a constant for nvcc, too.
  static constexpr std::size_t losses =
      process + std::tuple_size_v<decltype(gaussian_process::numbers)>;  // a constant for nvcc too

  /// Returns the state before the first update.
  static std::vector<double> initial() {
    std::vector<double> numbers(losses);
    numbers[last_epoch] = -1;
    const gaussian_process fresh;
    std::copy(fresh.numbers.begin(), fresh.numbers.end(), numbers.begin() + process);
    return numbers;
  }
};

}  // namespace detail::schedule

/// The schedule of AutoWU.
struct auto_wu {
  using at = detail::schedule::auto_wu_state;  ///< Places in `learned`.

  /// Length E of the run; required. Unit: epochs. Range: finite, above 0, else usage_error.
  double epochs = 0;
  /// Learning rate at epoch 0. Range: finite, above 0, below max_learning_rate, else usage_error.
  /// Default: as the authors' code.
  double min_learning_rate = 1e-5;
  /// Learning rate at the end of the longest warm-up. Range: finite, above min_learning_rate, else
  /// usage_error. Default: as the authors' code.
  double max_learning_rate = 1;
  /// Longest warm-up as a fraction of the epochs. Range: 0 < warmup_share <= 1, else usage_error.
  /// Default: as the authors' code.
  double warmup_share = 0.5;
  /// Shortest cooldown as a fraction of the epochs. Range: 0 <= cooldown_share <= 1, else
  /// usage_error. Default: as the authors' code.
  double cooldown_share = 0.2;
  bool linear = false;              ///< Whether the warm-up is linear instead of exponential.
  bool immediate_cooldown = false;  ///< Whether the cooldown begins at the switch, with no hold.
  /// Whether the cooldown begins at half the learning rate: lr' (1 + cos(pi/2 (1 + t/T))) / 2.
  bool half_cosine = false;
  /// Gaussian processes that vote after each epoch. Range: 1 or more, else usage_error. Default: as
  /// the authors' code.
  int tests = 5;
  /// Consecutive epochs with a majority before the switch. Unit: epochs. Range: 1 or more, else
  /// usage_error. Default: as the authors' code.
  int patience = 3;
  /// Probability of a past minimum above which a process votes for the switch. Range: 0 <
  /// confidence < 1, else usage_error. Default: as the authors' code.
  double confidence = 0.95;
  std::uint64_t seed = 0;  ///< Seed of the subsets of losses. Range: any.

  /// State: the numbers of `at`, then the losses of the warm-up.
  std::vector<double> learned = at::initial();

  /// The learning rate in the current phase; during warm-up and cooldown it depends on the epoch.
  /// @throws error for a state of another schedule.
  double operator()(double epoch) const {
    check();
    if (learned[at::phase] == 0) return interpolated(max_learning_rate, epoch / warmup());
    if (learned[at::phase] == 1) return learned[at::held];
    const double past = epoch - learned[at::cooled];
    const double t = past < learned[at::cooldown] ? std::max(past, 0.0) / learned[at::cooldown] : 1;
    const double angle = std::numbers::pi * (half_cosine ? (1 + t) / 2 : t);
    return learned[at::held] * (1 + detail::core::cos(angle)) / 2;
  }

  /// Records the loss; after each epoch of the warm-up the processes vote. @throws error for a
  /// state of another schedule.
  void observe(const observation& seen) {
    check();
    const double update = learned[at::last_epoch] < 0 ? 0 : seen.epoch - learned[at::last_epoch];
    const double next = seen.epoch + update, learning_rate = (*this)(seen.epoch);
    learned[at::last_epoch] = seen.epoch;
    // Tolerances for whole updates, whose multiples are not exact.
    const bool cools = next >= (1 - cooldown_share) * epochs - 1e-6 * update;
    const bool is_warm = next > warmup() - (1 - 1e-6) * update;
    if (learned[at::phase] == 0 && !cools && !is_warm) {
      learned.push_back(seen.loss);
      if (seen.epoch_loss) test(learning_rate, next);
      return;
    }
    if (learned[at::phase] == 0) begin_hold(learning_rate);
    if (learned[at::phase] == 1 && (cools || immediate_cooldown)) begin_cooldown(seen.epoch, next);
  }

  /// Returns the learning rate at fraction x of the way from `min_learning_rate` to `end`; x is
  /// clamped to [0, 1].
  [[nodiscard]] double interpolated(double end, double x) const {
    const double share = std::clamp(x, 0.0, 1.0);
    return linear ? min_learning_rate + (end - min_learning_rate) * share
                  : min_learning_rate * detail::core::pow(end / min_learning_rate, share);
  }

  /// `learned`, which grows by each loss until the switch.
  [[nodiscard]] std::vector<double>& state() { return learned; }
  /// `epochs`.
  [[nodiscard]] double end_epoch() const { return epochs; }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    const double phase = learned[at::phase];
    return concat(
        "AutoWU over ", epochs, " epochs: ", linear ? "linear" : "exponential", " from ",
        min_learning_rate, " to at most ", max_learning_rate, " at epoch ", warmup(), " or after ",
        patience, " epochs in which most of ", tests, " processes (seed ", seed, ") are ",
        100 * confidence, " % sure of a minimum",
        immediate_cooldown ? ", then" : ", then constant from where the loss had its minimum, and",
        " a ", half_cosine ? "half " : "", "cosine to 0",
        immediate_cooldown ? "" : concat(" from epoch ", (1 - cooldown_share) * epochs, " on"),
        phase == 0 ? "" : concat("; has switched to ", learned[at::held]));
  }

 private:
  [[nodiscard]] double warmup() const { return warmup_share * epochs; }
  void check() const {
    detail::schedule::expect_finite("auto_wu", {{".epochs", epochs},
                                                {".min_learning_rate", min_learning_rate},
                                                {".max_learning_rate", max_learning_rate}});
    expects(epochs > 0, "auto_wu: set .epochs, the length of the run");
    expects(min_learning_rate > 0 && min_learning_rate < max_learning_rate,
            "auto_wu: .min_learning_rate must be above 0 and below .max_learning_rate");
    expects(warmup_share > 0 && warmup_share <= 1 && cooldown_share >= 0 && cooldown_share <= 1,
            "auto_wu: .warmup_share and .cooldown_share must be from 0 to 1");
    expects(tests >= 1 && patience >= 1, "auto_wu: .tests and .patience must be 1 or more");
    expects(confidence > 0 && confidence < 1, "auto_wu: .confidence must be between 0 and 1");
    if (learned.size() < at::losses)
      throw error("auto_wu: the saved state is that of another schedule");
  }
  void begin_hold(double learning_rate) {
    learned[at::phase] = 1;
    learned[at::held] = learning_rate;
    learned.resize(at::losses);
  }
  void begin_cooldown(double last, double next) {
    learned[at::phase] = 2;
    learned[at::cooled] = last;
    learned[at::cooldown] = epochs - next;
  }

  // The losses up to an epoch's end: whether to switch, and to which learning rate.
  void test(double learning_rate, double next) {
    constexpr std::size_t fit_points = 100, points = 500, grid_points = 500;
    const std::vector<std::size_t> finite = finite_losses();
    ++learned[at::tested];
    if (finite.empty()) return;
    detail::schedule::gaussian_process process;
    std::copy_n(learned.begin() + at::process, process.numbers.size(), process.numbers.begin());
    process.numbers[0] = 0;
    for (const std::size_t i : finite)
      process.numbers[0] += loss(i) / static_cast<double>(finite.size());
    std::vector<double> x, y, grid(grid_points);
    for (std::size_t i = 0; i < grid_points; ++i)
      grid[i] = static_cast<double>(i) / static_cast<double>(grid_points - 1);
    subset(finite, fit_points, 0, x, y);
    process.fit(x, y, 100);
    std::copy(process.numbers.begin(), process.numbers.end(), learned.begin() + at::process);

    int votes = 0;
    double target = 0;
    for (int k = 0; k < tests; ++k) {
      subset(finite, points, static_cast<std::uint64_t>(k) + 1, x, y);
      const detail::schedule::gp_prediction curve = process.predict(x, y, grid);
      if (detail::schedule::past_minimum_probability(curve) > confidence) ++votes;
      const auto lowest =
          std::min_element(curve.mean.begin(), curve.mean.end()) - curve.mean.begin();
      target += interpolated(learning_rate, grid[static_cast<std::size_t>(lowest)]) / tests;
    }
    learned[at::majorities] = 2 * votes > tests ? learned[at::majorities] + 1 : 0;
    if (learned[at::majorities] < patience) return;
    begin_hold(target);
    if (immediate_cooldown) begin_cooldown(learned[at::last_epoch], next);
  }

  [[nodiscard]] double loss(std::size_t update) const { return learned[at::losses + update]; }
  [[nodiscard]] std::vector<std::size_t> finite_losses() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < learned.size() - at::losses; ++i)
      if (detail::core::isfinite(loss(i))) out.push_back(i);
    return out;
  }
  // At most `most` losses drawn at random, at their places in [0, 1).
  void subset(std::vector<std::size_t> from, std::size_t most, std::uint64_t draw,
              std::vector<double>& x, std::vector<double>& y) const {
    if (from.size() > most) {
      random_sequence random(seed, purpose::regression,
                             static_cast<std::uint64_t>(learned[at::tested]), draw);
      for (std::size_t i = 0; i < most; ++i)
        std::swap(from[i], from[i + random.below(static_cast<std::uint32_t>(from.size() - i))]);
      from.resize(most);
      std::sort(from.begin(), from.end());
    }
    x.clear();
    y.clear();
    for (const std::size_t i : from) {
      x.push_back(static_cast<double>(i) / static_cast<double>(learned.size() - at::losses));
      y.push_back(loss(i));
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI
