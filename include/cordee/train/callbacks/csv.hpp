// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that writes one line per step to a file for gnuplot and pandas. Validation columns are
// filled at the ends of epochs.
//
// A further `fit` with the same object appends. So does a resumed run (checkpoint/resume.hpp), with
// the same columns; the lines of steps that it repeats are removed first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/train/callbacks/record.hpp>
#include <cordee/train/callbacks/step_log.hpp>

namespace cordee::inline CORDEE_ABI {

/// Writes a table of the steps; the first line names its columns.
class csv {
 public:
  /// The file is opened by `begin`; its folder must exist.
  explicit csv(std::string path) : log_("csv", std::move(path)) {}

  /// Checks the file without changing it. @throws error under the same conditions as `begin`.
  template <class Run>
  void check_on_all_ranks(Run& run, double epoch) {
    if (run.comm().rank() == 0) log_.check(epoch > 0, is_first);
  }
  /// Opens the file, new or to append. @throws error if it cannot be written or, in a resumed run,
  /// has other columns.
  void begin(const run_plan& p) {
    if (row_ && p.first_step > 0 && row_->info.step >= p.first_step) forget_row();
    const bool appends = log_.open(p.first_step > 0, is_first, [&](const std::string& line) {
      const auto step = decimal::parse<std::int64_t>(line.substr(0, line.find(',')));
      return step && *step >= p.first_step;
    });
    if (!appends) log_.put(concat(columns, "\n").c_str());
    log_.flush();  // a full disk is an error before the first step
  }
  /// Writes the row of the previous step. @throws error on a full disk, as does `end`.
  void step(const step_record& r) {
    flush();
    row_ = r;
  }
  /// Adds the validation to the last step's row.
  void epoch(const epoch_record& r) {
    validation_ = r.validation;
    consensus_distance_ = r.consensus_distance;
  }
  /// Writes the last row.
  void end(const run_summary&) {
    flush();
    log_.end();
  }

 private:
  static bool is_first(const std::string& line) { return line == concat(columns, "\n"); }

  static constexpr std::string_view columns =
      "step,epoch,learning_rate,loss,top1,top5,samples,grad_norm,skipped,seconds,"
      "input_wait_seconds,exposed_exchange_seconds,clip_factor,loss_scale,trust_ratio_min,"
      "trust_ratio_first_quartile,trust_ratio_median,trust_ratio_third_quartile,trust_ratio_max,"
      "validation_loss,validation_top1,consensus_distance";

  // Writes the last step's row; deferred until its validation metrics, if any, are known.
  void flush() {
    if (!row_) return;
    const step_record& r = *row_;
    // Empty for a model that does not count right predictions.
    const auto share = [](double x) { return x >= 0 ? decimal::fixed(x, 6) : std::string(); };
    const auto number = [](double x) { return decimal::general(x, 9); };
    std::string line =
        concat(r.info.step, ",", decimal::fixed(r.info.epoch, 6), ",", number(r.info.learning_rate),
               ",", number(r.train.mean_loss()), ",", share(r.train.accuracy()), ",",
               share(r.train.top5_accuracy()), ",", r.train.count, ",", number(r.grad_norm), ",",
               r.skipped, ",", decimal::fixed(r.seconds, 3), ",");
    detail::train::for_measurements(
        r, [&](const char*, const auto& value) { line += value ? number(*value) + "," : ","; });
    line += validation_
                ? concat(number(validation_->mean_loss()), ",", share(validation_->accuracy()), ",")
                : ",,";
    if (consensus_distance_) line += number(*consensus_distance_);
    log_.put((line + "\n").c_str());
    forget_row();
  }
  void forget_row() {
    row_.reset();
    validation_.reset();
    consensus_distance_.reset();
  }

  detail::train::step_log log_;
  std::optional<step_record> row_;
  std::optional<metrics> validation_;
  std::optional<double> consensus_distance_;
};

}  // namespace cordee::inline CORDEE_ABI
