// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that keeps the weights of the epoch with the best validation.
#pragma once

#include <array>
#include <cerrno>
#include <concepts>
#include <cstdio>
#include <cstring>
#include <string>

#include <unistd.h>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/math.hpp>
#include <cordee/io/atomic_file.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/train/callbacks/best_epoch.hpp>

namespace cordee::inline CORDEE_ABI {

/// Saves the mean model to `path`, as `run.save(path)` does, after each epoch whose validation
/// beats all earlier ones. The file's metadata are those of `save`, the value as
/// "validation_accuracy" or "validation_loss", and the "epoch"; a resumed run and a further fit
/// replace the file only by a better one. Requires a `validation` among fit's arguments.
struct best {
  /// File of the weights; missing folders are created. Range: not empty, else usage_error.
  std::string path;
  /// Which measure decides that an epoch is better.
  validation_measure measure = validation_measure::accuracy;
  detail::train::best_epoch kept{};  ///< State: the best value so far, and its epoch.

  /// Called by a fit without `validation`. @throws error.
  [[noreturn]] void refuse_without_validation() const {
    detail::train::refuse_without_validation(measure, "best");
  }
  /// Settings that must agree on all ranks.
  [[nodiscard, gnu::cold]] std::string rank_settings() const {
    return concat("best, .measure ", detail::train::name_of(measure));
  }

  /// Checks the path and, if the run continues, reads the value in the file there. @throws
  /// usage_error for an empty path; error if its folder cannot be created or written.
  template <class Run>
  void check_on_all_ranks(Run& run, double epoch) {
    std::array<double, 3> known{};  // whether there is a value, the value, its epoch
    if (run.comm().rank() == 0) {
      expect_writable(path);
      if (epoch > 0 && !kept.value) read(path);
      known = {kept.value ? 1.0 : 0.0, kept.value.value_or(0), 1.0 * kept.epoch};
    }
    allreduce_host(run.comm(), known, reduce_op::sum);
    if (known[0] != 0) kept = {known[1], static_cast<int>(known[2])};
  }
  /// Saves the mean model if the epoch beats all earlier ones; never ends the run.
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record& e) {
    const double value = detail::train::measure(measure, e, "best");
    if (kept.add(measure, value, e.last.info.epoch))
      run.save(path, {{key(measure), decimal::shortest(value)}, {"epoch", concat(kept.epoch)}});
    return false;
  }
  /// Prints the best value and its epoch to standard error, on rank 0.
  template <class Run>
  void end_on_all_ranks(Run& run) {
    if (run.comm().rank() == 0 && kept.value)
      std::fputs(
          concat("best: ", path, " has the weights with validation ",
                 detail::train::name_of(measure), " ", *kept.value, ", of epoch ", kept.epoch, "\n")
              .c_str(),
          stderr);
  }

 private:
  // Templates, so that programs that keep no weights do not compile them.
  [[nodiscard]] static std::string key(const auto& m) {
    return concat("validation_", detail::train::name_of(m));
  }
  static void expect_writable(const std::convertible_to<std::string> auto& file) {
    expects(!file.empty(), "best: .path is empty: name a file");
    detail::io::make_folders(file);
    const std::size_t slash = file.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      throw error(concat("best: cannot write \"", file, "\": ", std::strerror(errno),
                         "; name a file in a folder that can be written"));
  }
  // The value of the file that the run before left. One without a value is replaced.
  void read(const std::convertible_to<std::string> auto& from) {
    if (::access(from.c_str(), F_OK) != 0) return;
    const auto file = detail::io::tensor_file::open(from);
    for (const auto& [name, value] : file.metadata()) {
      if (name == key(measure)) kept.value = decimal::parse<double>(value);
      if (name == "epoch") kept.epoch = decimal::parse<int>(value).value_or(0);
    }
    if (kept.value && !detail::core::isfinite(*kept.value)) kept = {};
  }
};

}  // namespace cordee::inline CORDEE_ABI
