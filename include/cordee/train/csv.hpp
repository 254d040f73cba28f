// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that writes one line per step to a file that gnuplot and pandas read. Validation
// columns are filled at the ends of epochs.
//
// A further `fit` with the same object appends. So does a resumed run (checkpoint/resume.hpp), with
// the same columns; the lines of steps that it repeats are removed first.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <unistd.h>

#include <cordee/core/error.hpp>
#include <cordee/train/record.hpp>

namespace cordee::inline CORDEE_ABI {

class csv {
 public:
  explicit csv(std::string path) : path_(std::move(path)) {}

  void begin(const run_plan& p) {
    const bool appends = file_ != nullptr || (p.first_step > 0 && cut(p.first_step));
    if (!file_) file_.reset(std::fopen(path_.c_str(), appends ? "a" : "w"));
    if (!file_) fail("open");
    if (!appends) put(concat(columns, "\n").c_str());
  }
  void step(const step_record& r) {
    flush();
    row_ = r;
  }
  void epoch(const epoch_record& r) { validation_ = r.validation; }
  void end(const run_summary&) {
    flush();
    if (file_ && std::fflush(file_.get()) != 0) fail("write");
  }

 private:
  struct closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  static constexpr std::string_view columns =
      "step,epoch,learning_rate,loss,top1,top5,samples,grad_norm,skipped,seconds,validation_loss,"
      "validation_top1";

  // Removes the lines from a step on, and an incomplete last one. Returns false if there is no such
  // file. Throws error if it is another table.
  [[nodiscard]] bool cut(std::int64_t first_step) const {
    const std::unique_ptr<std::FILE, closer> file(std::fopen(path_.c_str(), "r+"));
    char line[400];
    if (!file || std::fgets(line, sizeof line, file.get()) == nullptr) return false;
    if (line != concat(columns, "\n"))
      throw error(concat("csv: \"", path_,
                         "\" has other columns, so that a resumed run cannot append to it; name "
                         "another file"));
    long keep = 0;  // bytes
    do {
      keep = std::ftell(file.get());
    } while (std::fgets(line, sizeof line, file.get()) != nullptr &&
             std::strchr(line, '\n') != nullptr && std::strtoll(line, nullptr, 10) < first_step);
    if (::ftruncate(fileno(file.get()), keep) != 0) fail("shorten");
    return true;
  }
  // Writes the last step's row; deferred until its validation metrics, if any, are known.
  void flush() {
    if (!row_) return;
    const step_record& r = *row_;
    const auto count = static_cast<double>(r.train.count > 0 ? r.train.count : 1);
    char line[320];
    std::snprintf(line, sizeof line, "%lld,%.6f,%.9g,%.9g,%.6f,%.6f,%lld,%.9g,%lld,%.3f,",
                  static_cast<long long>(r.info.step), r.info.epoch, r.info.learning_rate,
                  r.train.mean_loss(), static_cast<double>(r.train.top1) / count,
                  static_cast<double>(r.train.top5) / count, static_cast<long long>(r.train.count),
                  r.grad_norm, static_cast<long long>(r.skipped), r.seconds);
    put(line);
    if (validation_) {
      std::snprintf(line, sizeof line, "%.9g,%.6f", validation_->mean_loss(),
                    validation_->accuracy());
      put(line);
    } else {
      put(",");
    }
    put("\n");
    row_.reset();
    validation_.reset();
  }
  void put(const char* text) {
    if (std::fputs(text, file_.get()) < 0) fail("write");
  }
  [[noreturn]] void fail(const char* verb) const {
    throw error(concat("csv: cannot ", verb, " \"", path_, "\": ", std::strerror(errno),
                       "; name a file in a folder that exists and has room"));
  }

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  std::optional<step_record> row_;
  std::optional<metrics> validation_;
};

}  // namespace cordee::inline CORDEE_ABI
