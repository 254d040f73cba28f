// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that writes one JSON object per line: the run's beginning, each step, each epoch, the
// run's end. `event` states which, and every line has the `step`.
//
//   {"event":"step","step":7,"epoch":0.7,"learning_rate":0.1,"loss":1.5,…}
//
// NaN and infinity are null, since JSON has no such numbers. A further `fit` with the same object
// appends. So does a resumed run; the lines of steps that it repeats are removed first. An end line
// has the step of the run's last update.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/math.hpp>
#include <cordee/train/callbacks/record.hpp>
#include <cordee/train/callbacks/step_log.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Writes a JSON object per line; see the top.
template <class Log = step_log>
class basic_json_lines {
 public:
  /// The file is opened by `begin`; its folder must exist.
  explicit basic_json_lines(std::string path) : log_("json_lines", std::move(path)) {}

  /// Checks the file without changing it. @throws error under the same conditions as `begin`.
  template <class Run>
  void check_on_all_ranks(Run& run, double epoch) {
    if (run.comm().rank() == 0) log_.check(epoch > 0, is_first);
  }
  /// Opens the file, new or to append, and writes the plan. @throws error if it cannot be written
  /// or, in a resumed run, is another log; on a full disk, as do the next three.
  void begin(const run_plan& p) {
    first_step_ = p.first_step;
    last_seconds_ = 0;
    const auto step_of = [](const std::string& line) {
      return integer_behind(line, "\"step\":").value_or(-1);
    };
    log_.open(p.first_step > 0, is_first,
              [&](const std::string& line) { return step_of(line) >= p.first_step; });
    start("begin", p.first_step);
    add("steps", p.steps);
    add("epochs", p.epochs);
    add("samples", p.samples);
    add("global_batch", p.global_batch);
    add("ranks", std::int64_t{p.ranks});
    add("accumulate", std::int64_t{p.accumulate});
    finish();
    log_.flush();  // a full disk is an error before the first step
  }
  /// Writes the update.
  void step(const step_record& r) {
    start("step", r.info.step);
    add("epoch", r.info.epoch);
    add("learning_rate", r.info.learning_rate);
    add("", r.train);
    add("samples", r.train.count);
    add(r.grad_norm_local ? "gradient_norm_local" : "gradient_norm", r.grad_norm);
    if (!r.noise.empty()) add("noise_scale", r.noise.scale());
    add("skipped", r.skipped);
    add("seconds", r.seconds);
    add("images_per_second", static_cast<double>(r.train.count) / (r.seconds - last_seconds_));
    last_seconds_ = r.seconds;
    detail::train::for_measurements(r, [&](const char* name, const auto& value) {
      if (value) add(name, *value);
    });
    finish();
  }
  /// Writes the epoch, with its validation.
  void epoch(const epoch_record& e) {
    start("epoch", e.last.info.step);
    add("epoch", e.last.info.epoch);
    add("train_", e.train);
    if (e.validation) add("validation_", *e.validation);
    if (e.consensus_distance) add("consensus_distance", *e.consensus_distance);
    add("seconds", e.last.seconds);
    finish();
    log_.flush();
  }
  /// Writes the end of the fit.
  void end(const run_summary& s) {
    start("end", first_step_ + s.steps - 1);
    add("steps", s.steps);
    add("skipped", s.skipped);
    add("seconds", s.seconds);
    line_ += s.stopped ? ",\"stopped\":true" : ",\"stopped\":false";
    finish();
    log_.end();
  }

 private:
  static bool is_first(const std::string& line) {
    return line.rfind("{\"event\":\"begin\",\"step\":", 0) == 0;
  }

  void start(const char* event, std::int64_t step) {
    line_ = concat("{\"event\":\"", event, "\",\"step\":", step);
  }
  void add(const char* key, std::int64_t value) { line_ += concat(",\"", key, "\":", value); }
  void add(const char* key, double value) {
    line_ += concat(",\"", key,
                    "\":", detail::core::isfinite(value) ? decimal::general(value, 9) : "null");
  }
  // Without samples there is no mean, and not every model counts right predictions.
  void add(const std::string& prefix, const metrics& m) {
    const double count =
        m.count > 0 ? static_cast<double>(m.count) : std::numeric_limits<double>::quiet_NaN();
    add((prefix + "loss").c_str(), m.loss / count);
    add((prefix + "top1").c_str(), m.count > 0 ? m.accuracy() : count);
    add((prefix + "top5").c_str(), m.count > 0 ? m.top5_accuracy() : count);
  }
  void finish() { log_.put((line_ + "}\n").c_str()); }

  Log log_;
  std::string line_;
  std::int64_t first_step_ = 0;
  double last_seconds_ = 0;
};

}  // namespace detail::train

/// Writes a JSON object per line.
using json_lines = detail::train::basic_json_lines<>;

}  // namespace cordee::inline CORDEE_ABI
