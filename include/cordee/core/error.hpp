// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Two kinds of failure: `error` for the environment (a truncated file, a lost rank), `usage_error`,
// thrown by `expects`, for a precondition that the caller violated (a span of the wrong size).
// `aborted` is an error reported by another process. Destructors and kernels do not throw.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// A failure of the environment; the message names the object and the remedy.
class error : public std::runtime_error {
 public:
  /// Makes an error; `location` defaults to the calling line.
  [[gnu::cold,
    gnu::noinline]] explicit error(const std::string& message,
                                   std::source_location location = std::source_location::current())
      : std::runtime_error(message), location_(location) {}

  /// Where the error was made. Not part of `what()`.
  [[nodiscard]] const std::source_location& location() const noexcept { return location_; }

 private:
  std::source_location location_;
};

/// A failure of another rank, which throws the cause itself as `error`. A program that prints
/// errors should exit silently on this one, so that the cause is printed once.
class aborted : public error {
 public:
  /// Made by transports on ranks that did not fail first.
  explicit aborted(const std::string& message) : error(message) {}
};

/// The caller violated a precondition.
class usage_error : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail::core {

/// A device has no memory left.
class out_of_memory : public error {
 public:
  explicit out_of_memory(const std::string& message) : error(message) {}
};

// Out of line, so that each of the hundreds of preconditions costs a comparison and a call.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_usage_error(
    const char* message, std::source_location location) {
  throw usage_error(concat(message, " (", location.file_name(), ":", location.line(), ")"));
}
}  // namespace detail::core

/// Throws `usage_error` with the message and the caller's source location unless `condition` holds.
constexpr void expects(bool condition, const char* message,
                       std::source_location location = std::source_location::current()) {
  if (!condition) detail::core::throw_usage_error(message, location);
}

}  // namespace cordee::inline CORDEE_ABI
