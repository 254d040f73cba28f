// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Collects the violations of a law function, one per line.
//
//   report r;
//   r.expect(x == y, "rank ", rank, ": the mean is ", x, ", not ", y);
//   r.append(another_law(...));     // its violations, if any
//   return r.violations();          // empty: the law holds
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

/// Thread-safe: the threads of several ranks may share one report.
class report {
 public:
  /// Effects: unless `holds`, records the sentence that `parts` make.
  template <class... Parts>
  void expect(bool holds, const Parts&... parts) {
    if (!holds) record(concat(parts..., "\n"));
  }
  /// Effects: records the lines that another law has returned.
  void append(std::string_view violations) {
    while (!violations.empty()) {
      const std::size_t end = std::min(violations.find('\n'), violations.size());
      record(concat(violations.substr(0, end), "\n"));
      violations.remove_prefix(std::min(end + 1, violations.size()));
    }
  }

  /// Returns the first violations, one per line, and the number of those left out; empty if every
  /// expectation held.
  [[nodiscard]] std::string violations() const {
    const std::scoped_lock lock(mutex_);
    return count_ <= limit ? lines_ : concat(lines_, "and ", count_ - limit, " more\n");
  }

 private:
  static constexpr int limit = 10;

  void record(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    if (++count_ <= limit) lines_ += line;
  }

  mutable std::mutex mutex_;
  int count_ = 0;
  std::string lines_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::testing
