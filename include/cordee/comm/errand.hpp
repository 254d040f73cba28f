// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the exchanges of a thread are for, in words, so that a transport whose peer does not come
// can say more than bytes and lanes. Setting an errand costs two pointers; the words are made only
// when somebody has to report.
#pragma once

#include <string>
#include <utility>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// While it lives, this thread's exchanges are made for what words() says.
class errand {
 public:
  /// `words` must outlive the errand.
  template <class Words>
  explicit errand(const Words& words)
      : say_([](const void* w) { return std::string((*static_cast<const Words*>(w))()); }),
        words_(&words),
        outer_(std::exchange(current_, this)) {}
  errand(const errand&) = delete;
  errand& operator=(const errand&) = delete;
  ~errand() { current_ = outer_; }

  /// " (...)" for the end of a sentence; nothing where this thread has no errand.
  [[nodiscard, gnu::cold]] static std::string words() {
    return current_ == nullptr ? "" : " (" + current_->say_(current_->words_) + ")";
  }
  /// Those of the errand around the innermost one, for whose own words this is.
  [[nodiscard, gnu::cold]] static std::string outer() {
    const errand* const inner = std::exchange(current_, current_->outer_);
    std::string said = words();
    current_ = inner;
    return said;
  }

 private:
  std::string (*say_)(const void*);
  const void* words_;
  const errand* outer_;
  inline static thread_local const errand* current_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI
