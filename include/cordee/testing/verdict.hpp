// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Broken laws, as sentences. Ranks report side by side; no test framework is asked for.
#pragma once

#include <mutex>
#include <string>

#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

class verdict {
 public:
  /// Notes the sentence unless the law `holds`.
  template <class... Parts>
  void law(bool holds, const Parts&... sentence) {
    if (holds) return;
    const std::scoped_lock lock(mutex_);
    if (++broken_ <= shown) sentences_ += text(sentence..., "\n");
  }

  /// Empty if every law held; else the first few sentences.
  [[nodiscard]] std::string str() const {
    const std::scoped_lock lock(mutex_);
    return broken_ <= shown ? sentences_ : text(sentences_, "and ", broken_ - shown, " more\n");
  }

 private:
  static constexpr int shown = 10;

  mutable std::mutex mutex_;
  int broken_ = 0;
  std::string sentences_;
};

}  // namespace cordee::inline CORDEE_ABI
