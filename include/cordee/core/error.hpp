// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Two ways to fail: `error` when the world is not as it should be (a truncated file, a rank that
// left), `expects` when the caller is not (a span of the wrong size). Nothing is thrown from
// destructors or kernels.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

#include <cordee/core/config.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// What went wrong in the world; the text names the thing and the remedy.
class error : public std::runtime_error {
 public:
  explicit error(const std::string& what,
                 std::source_location where = std::source_location::current())
      : std::runtime_error(what), where_(where) {}

  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  std::source_location where_;
};

/// A precondition that the caller broke.
class misuse : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
// Out of line: hundreds of preconditions should cost a comparison and a call each.
[[noreturn, gnu::cold, gnu::noinline]] inline void broken(const char* sentence,
                                                          const std::source_location& where) {
  throw misuse(text(sentence, " (", where.file_name(), ":", where.line(), ")"));
}
}  // namespace detail

/// Throws `misuse` with the sentence and the caller's place unless `condition` holds.
constexpr void expects(bool condition, const char* sentence,
                       std::source_location where = std::source_location::current()) {
  if (!condition) detail::broken(sentence, where);
}

}  // namespace cordee::inline CORDEE_ABI
