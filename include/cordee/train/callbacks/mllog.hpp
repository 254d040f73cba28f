// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that writes the lines of MLPerf's training log (mlcommons/logging):
//
//   :::MLLOG {"namespace": "", "time_ms": …, "event_type": "INTERVAL_START", "key": "run_start",
//             "value": null, "metadata": {"step": 0}}
//
// submission_* and cache_clear as given; init_start to init_stop around the hyper-parameters; then
// run_start, and for each epoch epoch_start, epoch_stop, lr, eval_start, eval_stop, eval_accuracy;
// run_stop with its status. In every line, metadata "step" is the index of the next update;
// epoch_stop has the epoch's largest global batch, since the header states the first one, and the
// rules allow no second.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/io/json.hpp>
#include <cordee/train/callbacks/best_epoch.hpp>
#include <cordee/train/callbacks/record.hpp>
#include <cordee/train/callbacks/step_log.hpp>
#include <cordee/train/step/trust_ratio_quantiles.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// What the run cannot provide itself.
struct mllog_options {
  /// Values of submission_benchmark, submission_org and submission_platform.
  std::string benchmark = "resnet", organization = "unknown", platform = "unknown";
  /// Values of submission_division and submission_status.
  std::string division = "open", status = "research";
  bool cache_clear = false;  ///< Whether the system's caches were cleared before.
  /// Accuracy of a validation that makes run_stop's status "success"; with 0 it is that unless a
  /// callback ended the run. Range: 0 to 1, else usage_error.
  double target_accuracy = 0;
  /// Further keys, such as those of the schedule: {{"lars_opt_base_learning_rate", 29}}.
  std::vector<std::pair<std::string, double>> values{};
};

/// A resumed run appends, and the lines of updates that it repeats are removed first: the log is
/// that of one run. A further fit with the same object is another run in the same file.
template <class Log = step_log>
class basic_mllog {
 public:
  /// init_start records the time of this call. `begin` opens the file; its folder must exist.
  explicit basic_mllog(std::string path, mllog_options options = {})
      : log_("mllog", std::move(path)), options_(std::move(options)), constructed_(now()) {}

  /// Checks the options and the file without changing it. @throws usage_error for an option out of
  /// its range, and error under the same conditions as `begin`.
  template <class Run>
  void check_on_all_ranks(Run& run, double epoch) {
    expects(options_.target_accuracy >= 0 && options_.target_accuracy <= 1,
            "mllog: .target_accuracy is 0, for none, or at most 1");
    if (run.comm().rank() == 0) log_.check(epoch > 0, is_first);
  }
  /// Opens the file, new or to append. @throws error if it cannot be written or, in a resumed run,
  /// is another log; on a full disk, as do the following.
  void begin(const run_plan& p) {
    plan_ = p;
    step_ = p.first_step;
    epoch_begun_ = batch_ = 0;  // of a fit that ended within an epoch
    const auto step_of = [](const std::string& line) {
      return integer_behind(line, "\"step\": ").value_or(-1);
    };
    const bool is_further = opened_ && (!log_.is_in_fit() || p.first_step == 0);
    const bool appends = log_.open(p.first_step > 0, is_first, [&](const std::string& line) {
      return step_of(line) >= p.first_step;
    });
    begins_run_ = !appends || is_further;
    opened_ = true;
    reached_ = false;
  }
  /// Writes the submission, the hyper-parameters and run_start, unless the run is resumed;
  /// epoch_start.
  template <class Run>
  void begin_on_all_ranks(Run& run, double epoch) {
    if (run.comm().rank() != 0) return;
    epoch_number_ = static_cast<std::int64_t>(epoch) + 1;
    if (begins_run_) {
      step_ = -1;  // of lines that a resumed run keeps
      start_run(run.optimizer(), run.fit_state().seed);
      step_ = plan_.first_step;
    }
    if (begins_run_ || plan_.begins_epoch)
      write("INTERVAL_START", "epoch_start", "null", numbered());
    log_.flush();
  }
  /// Writes epoch_start before the first update of a later epoch.
  void step(const step_record& r) {
    if (epoch_begun_ > 0)
      write("INTERVAL_START", "epoch_start", "null", numbered(), std::exchange(epoch_begun_, 0));
    step_ = r.info.step;
    batch_ = std::max(batch_, r.train.count);
  }
  /// Writes epoch_stop, lr and eval_start.
  void begin_validation(const step_record& r) {
    stop_epoch(r);
    write("INTERVAL_START", "eval_start", "null", numbered());
  }
  /// Writes eval_stop and eval_accuracy; without a validation, epoch_stop and lr.
  void epoch(const epoch_record& e) {
    if (e.validation && e.validation->top1 < 0) refuse_without_accuracy("mllog");
    if (e.validation) {
      write("INTERVAL_END", "eval_stop", "null", numbered());
      point("eval_accuracy", e.validation->accuracy(), numbered());
      reached_ = reached_ || (e.validation->accuracy() >= options_.target_accuracy);
    } else {
      stop_epoch(e.last);
    }
    ++epoch_number_;
    step_ = e.last.info.step + 1;
    epoch_begun_ = now();  // written with the next update, if there is one
    log_.flush();
  }
  /// Writes run_stop.
  void end(const run_summary& s) {
    epoch_begun_ = 0;
    step_ = plan_.first_step + s.steps;
    const bool success = options_.target_accuracy > 0 ? reached_ : !s.stopped;
    write("INTERVAL_END", "run_stop", "null",
          success ? ", \"status\": \"success\"" : ", \"status\": \"aborted\"");
    log_.end();
  }

 private:
  static bool is_first(const std::string& line) { return line.rfind(":::MLLOG {", 0) == 0; }

  static std::int64_t now() {
    std::timespec t{};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1000000;
  }

  template <class Optimizer>
  void start_run(const Optimizer& optimizer, std::uint64_t seed) {
    point("submission_benchmark", options_.benchmark);
    point("submission_org", options_.organization);
    point("submission_platform", options_.platform);
    point("submission_division", options_.division);
    point("submission_status", options_.status);
    write("POINT_IN_TIME", "cache_clear", options_.cache_clear ? "true" : "false", "");
    write("INTERVAL_START", "init_start", "null", "", constructed_);
    point("seed", seed);
    point("global_batch_size", plan_.global_batch);
    point("gradient_accumulation_steps", plan_.accumulate);
    point("train_samples", plan_.samples);
    point("eval_samples", plan_.validation_samples);
    write_optimizer(innermost(optimizer));
    for (const auto& [key, value] : options_.values) point(key, value);
    write("INTERVAL_END", "init_stop", "null", "");
    write("INTERVAL_START", "run_start", "null", "");
  }
  // Under the names of mllog's constants.
  template <class Optimizer>
  void write_optimizer(const Optimizer& o) {
    const std::string text = core::describe_policy(o);
    std::string name = text.substr(0, text.find(','));
    if constexpr (requires { o.trust_coefficient, o.momentum, o.epsilon; }) {
      if (name.rfind("lars", 0) == 0) name = "lars";  // all its forms
      point(concat(name, "_opt_momentum"), o.momentum);
      point(concat(name, "_opt_weight_decay"), o.weight_decay);
      point(concat(name, "_epsilon"), o.epsilon);
    } else if constexpr (requires { o.beta1, o.beta2, o.epsilon, o.weight_decay; }) {
      const bool adapts = HasTrustRatio<Optimizer>;
      if (adapts) name = "lamb";
      point(concat("opt_", name, "_beta_1"), o.beta1);
      point(concat("opt_", name, "_beta_2"), o.beta2);
      point(concat("opt_", name, "_epsilon"), o.epsilon);
      point(concat("opt_", name, adapts ? "_weight_decay_rate" : "_weight_decay"), o.weight_decay);
    } else if constexpr (requires { o.momentum, o.weight_decay; }) {
      if (name == "velocity_sgd") name = "sgd";
      point(concat(name, "_opt_momentum"), o.momentum);
      point(concat(name, "_opt_weight_decay"), o.weight_decay);
    }
    point("opt_name", name);
  }
  void stop_epoch(const step_record& r) {
    write("INTERVAL_END", "epoch_stop", "null",
          concat(numbered(), ", \"global_batch_size\": ", std::exchange(batch_, 0)));
    point("lr", r.info.learning_rate, numbered());
  }

  [[nodiscard]] std::string numbered() const { return concat(", \"epoch_num\": ", epoch_number_); }
  template <class T>
  void point(std::string_view key, const T& value, const std::string& metadata = {}) {
    std::string text;
    if constexpr (std::floating_point<T>) {
      text = detail::core::isfinite(value) ? decimal::general(value, 15) : "null";
    } else if constexpr (std::integral<T>) {
      text = concat(value);
    } else {
      text = io::json_quoted(value);
    }
    write("POINT_IN_TIME", key, text, metadata);
  }
  void write(const char* type, std::string_view key, const std::string& value,
             const std::string& metadata, std::int64_t time = now()) {
    log_.put(concat(":::MLLOG {\"namespace\": \"\", \"time_ms\": ", time, ", \"event_type\": \"",
                    type, "\", \"key\": ", io::json_quoted(key), ", \"value\": ", value,
                    ", \"metadata\": {\"step\": ", step_, metadata, "}}\n")
                 .c_str());
  }

  Log log_;
  mllog_options options_;
  std::int64_t constructed_, epoch_begun_ = 0;  // milliseconds; 0: no epoch begins
  run_plan plan_;
  std::int64_t step_ = 0, epoch_number_ = 1, batch_ = 0;
  bool begins_run_ = true, opened_ = false, reached_ = false;
};

}  // namespace detail::train

/// Writes MLPerf's training log.
using mllog = detail::train::basic_mllog<>;

}  // namespace cordee::inline CORDEE_ABI
