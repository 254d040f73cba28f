// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the exchanges of a thread are for, as text, so that the error of a transport names step and
// bucket beside bytes and context. An error_context costs two pointers; its text is made only when
// an error is reported.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/failure/completed_op.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// While it lives, errors of this thread's exchanges end with describe()'s text. Contexts nest; the
/// innermost one counts.
class error_context {
 public:
  /// `describe`, and `completed`, which returns completed operations, must outlive the context.
  template <class Describe>
  explicit error_context(const Describe& describe)
      : call_describe_(
            [](const void* f) { return std::string((*static_cast<const Describe*>(f))()); }),
        describe_(&describe),
        outer_(std::exchange(current_, this)) {}
  template <class Describe, class Completed>
  error_context(const Describe& describe, const Completed& completed) : error_context(describe) {
    call_completed_ = [](const void* f) { return (*static_cast<const Completed*>(f))(); };
    completed_ = &completed;
  }
  error_context(const error_context&) = delete;
  error_context& operator=(const error_context&) = delete;
  ~error_context() { current_ = outer_; }

  /// Effects: `context`, or none, becomes this thread's innermost one. Returns the previous one.
  /// For fibers, each of which has its own.
  static const error_context* exchange_current(const error_context* context) {
    return std::exchange(current_, context);
  }
  /// " (...)" for the end of a sentence; empty where this thread has no context.
  [[nodiscard, gnu::cold]] static std::string suffix() {
    if (current_ == nullptr) return {};
    return concat(" (", current_->call_describe_(current_->describe_), ")");
  }
  /// The suffix of the context around the innermost one, for use in the latter's own text.
  [[nodiscard, gnu::cold]] static std::string outer_suffix() {
    const error_context* const inner = std::exchange(current_, current_->outer_);
    std::string text = suffix();
    current_ = inner;
    return text;
  }
  /// The completed operations of the innermost context that has any to report.
  [[nodiscard, gnu::cold]] static std::vector<completed_op> completed() {
    for (const error_context* c = current_; c != nullptr; c = c->outer_)
      if (c->call_completed_ != nullptr) return c->call_completed_(c->completed_);
    return {};
  }

 private:
  std::string (*call_describe_)(const void*);
  std::vector<completed_op> (*call_completed_)(const void*) = nullptr;
  const void *describe_, *completed_ = nullptr;
  const error_context* outer_;
  inline static thread_local const error_context* current_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
