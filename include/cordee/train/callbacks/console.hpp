// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that prints progress: a progress bar on a terminal, otherwise a line every few
// seconds, and a line per epoch.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include <unistd.h>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/train/callbacks/record.hpp>

namespace cordee::inline CORDEE_ABI {

/// Prints progress, on rank 0.
class console {
 public:
  /// How often, where and in which form to print.
  struct options {
    /// Seconds between two lines; a progress bar is redrawn ten times as often. 0 or less: a line
    /// for each step. Unit: seconds. Range: any but NaN, else usage_error.
    double seconds = 5;
    /// Whether to redraw a progress bar instead of printing lines. Default: if `out` is a terminal
    /// and TERM is not "dumb".
    std::optional<bool> bar{};
    std::FILE* out = stdout;  ///< Stream, which must stay open while the object is in use.
  };

  console() : console(options{}) {}  ///< With the default options.
  /// Decides `o.bar` if it is unset. @throws usage_error if the seconds are NaN.
  explicit console(options o) : options_(o), bar_(o.bar.value_or(redraws_lines(o.out))) {
    expects(!detail::core::isnan(o.seconds), "console: .seconds is NaN");
  }

  /// Prints the batch, the length of the run, and its warnings.
  void begin(const run_plan& p) {
    plan_ = p;
    recent_ = {};
    samples_ = 0;
    shown_at_ = 0;
    print(concat("global batch ", detail::core::grouped(p.global_batch), " = ",
                 detail::core::grouped(p.micro_batch), " per micro-batch x ", p.ranks, " ranks x ",
                 p.accumulate, " accumulated",
                 p.micro_batch * p.ranks * p.accumulate > p.global_batch
                     ? " (some have one sample fewer); "
                     : "; ",
                 detail::core::grouped(p.steps - p.first_step), " steps, ", p.epochs, " epochs of ",
                 detail::core::grouped(p.samples), " samples\n"));
    for (const std::string& text : p.warnings) print(concat("warning: ", text, "\n"));
  }

  /// Prints the updates since the last line, if enough time has passed.
  void step(const step_record& r) {
    recent_ += r.train;
    samples_ += r.train.count;
    const double interval = bar_ ? options_.seconds / 10 : options_.seconds;
    if (r.seconds - shown_at_ < interval) return;
    const double speed = static_cast<double>(recent_.count) / std::max(r.seconds - shown_at_, 1e-9);
    print(bar_ ? "\r\x1b[K" + bar(r) + describe(r, speed) : describe(r, speed) + "\n");
    shown_at_ = r.seconds;
    recent_ = {};
  }

  /// Prints the metrics of the epoch and of the validation.
  void epoch(const epoch_record& e) {
    const auto scores = [](const metrics& m) {
      return concat("loss ", decimal::fixed(m.mean_loss(), 4), top1_of(m, 2));
    };
    std::string text = concat(bar_ ? "\r\x1b[K" : "", "epoch ",
                              decimal::general(std::min(e.last.epochs_seen, plan_.epochs), 4), "/",
                              decimal::general(plan_.epochs, 4), "  ", scores(e.train));
    if (e.validation)
      text += concat("  | validation: ", scores(*e.validation), " of ", e.validation->count);
    if (e.last.skipped > 0) text += concat("  | skipped ", e.last.skipped);
    print(text + "\n");
  }

  /// Prints steps, time and speed of the fit.
  void end(const run_summary& s) {
    if (s.steps == 0) return print("no steps: the loader is at the end of the epochs asked for\n");
    const double speed = static_cast<double>(samples_) / std::max(s.seconds, 1e-9);
    print(concat(bar_ ? "\r\x1b[K" : "", s.steps, " steps in ", duration(s.seconds), ", ",
                 decimal::fixed(speed, 0), " images/s\n"));
  }

 private:
  // Empty for a model that does not count right predictions.
  static std::string top1_of(const metrics& m, int digits) {
    if (m.top1 < 0) return {};
    return concat("  top-1 ", decimal::fixed(100 * m.accuracy(), digits), " %");
  }
  [[nodiscard]] std::string describe(const step_record& r, double speed) const {
    // By samples, not by steps, of which a batch that grows leaves fewer and longer ones.
    const double left = r.seconds / (r.epochs_seen - plan_.first_epoch) *
                        std::max(plan_.epochs - r.epochs_seen, 0.0);
    std::string clipped;
    if (r.clip_factor.value_or(1) < 1)
      clipped = concat(" clipped to ", decimal::general(r.grad_norm * *r.clip_factor, 3), " (x ",
                       decimal::general(*r.clip_factor, 3), ")");
    return concat(
        "step ", r.info.step + 1, "/", r.steps, "  epoch ", decimal::fixed(r.info.epoch, 2),
        "  loss ", decimal::fixed(recent_.mean_loss(), 4), top1_of(recent_, 1), "  lr ",
        decimal::general(r.info.learning_rate, 4), "  ", decimal::fixed(speed, 0), " images/s  |g|",
        r.grad_norm_local ? " (rms of ranks)" : "", " ", decimal::general(r.grad_norm, 3), clipped,
        "  skipped ", r.skipped, "  left ", duration(left));
  }
  [[nodiscard]] std::string bar(const step_record& r) const {
    constexpr int width = 20;
    const auto full =
        static_cast<int>(width * (r.info.step + 1) / std::max<std::int64_t>(r.steps, 1));
    return concat("[", std::string(static_cast<std::size_t>(full), '='),
                  std::string(static_cast<std::size_t>(width - full), ' '), "] ");
  }
  static std::string duration(double seconds) {
    const auto s = static_cast<long long>(seconds + 0.5);
    char out[40];
    if (s >= 3600)
      std::snprintf(out, sizeof out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
      std::snprintf(out, sizeof out, "%lld:%02lld", s / 60, s % 60);
    return out;
  }
  // Under Open MPI isatty() is true in a rank, whatever mpirun's own output is: where that is no
  // terminal, a launch script sets TERM.
  [[nodiscard]] static bool redraws_lines(std::FILE* out) {
    const char* const terminal = std::getenv("TERM");
    return isatty(fileno(out)) != 0 && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
  }
  void print(const std::string& text) {
    std::fputs(text.c_str(), options_.out);
    std::fflush(options_.out);
  }

  options options_;
  bool bar_;
  run_plan plan_;
  metrics recent_;
  std::int64_t samples_ = 0;
  double shown_at_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI
