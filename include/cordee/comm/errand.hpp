// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the exchanges of a thread are for, in words, so that a transport whose peer does not come
// can say more than bytes and lanes. Setting an errand costs two pointers; the words are made only
// when somebody has to report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/milestone.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// While it lives, this thread's exchanges are made for what words() says.
class errand {
 public:
  /// `words` must outlive the errand, and so must `reached`, which makes milestones.
  template <class Words>
  explicit errand(const Words& words)
      : say_([](const void* w) { return std::string((*static_cast<const Words*>(w))()); }),
        words_(&words),
        outer_(std::exchange(current_, this)) {}
  template <class Words, class Reached>
  errand(const Words& words, const Reached& reached) : errand(words) {
    tell_ = [](const void* r) { return (*static_cast<const Reached*>(r))(); };
    reached_ = &reached;
  }
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
  /// Of the innermost errand that knows of any.
  [[nodiscard, gnu::cold]] static std::vector<milestone> reached() {
    for (const errand* e = current_; e != nullptr; e = e->outer_)
      if (e->tell_ != nullptr) return e->tell_(e->reached_);
    return {};
  }

 private:
  std::string (*say_)(const void*);
  std::vector<milestone> (*tell_)(const void*) = nullptr;
  const void *words_, *reached_ = nullptr;
  const errand* outer_;
  inline static thread_local const errand* current_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI
