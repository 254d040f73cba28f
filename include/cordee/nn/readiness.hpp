// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/function.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Which segments of a table are complete. `ready` is called for each, in descending order.
class readiness {
 public:
  /// A pass over so many trainable segments.
  void begin(std::size_t count) {
    done_.assign(count, 0);
    next_ = count;
  }
  [[nodiscard]] std::size_t count() const { return done_.size(); }
  [[nodiscard]] bool is_set(std::size_t k) const { return k < done_.size() && done_[k] != 0; }
  /// Whether any was set.
  [[nodiscard]] bool any() const { return std::find(done_.begin(), done_.end(), 1) != done_.end(); }
  /// Throws usage_error for a segment that is not trainable, or was ready before.
  void set(std::size_t k, std::span<const segment> table,
           const std::function<void(std::size_t)>& ready) {
    if (k >= done_.size() || done_[k] != 0)
      throw usage_error(concat("custom_model: ready(\"", table[k].name, "\") ",
                               k >= done_.size() ? "is of a statistic, which has no gradient"
                                                 : "was called twice in one pass"));
    done_[k] = 1;
    while (next_ > 0 && done_[next_ - 1] != 0) ready(--next_);
  }
  /// Throws usage_error, with the name of the first that is not ready.
  void expect_all(std::span<const segment> table) const {
    const auto missing = std::find(done_.begin(), done_.end(), 0);
    if (missing != done_.end())
      throw usage_error(concat("custom_model: the pass ended without ready(\"",
                               table[static_cast<std::size_t>(missing - done_.begin())].name,
                               "\"): call it for every trainable tensor, or for none"));
  }

 private:
  std::vector<std::uint8_t> done_;
  std::size_t next_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
