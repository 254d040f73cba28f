// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A text file with a line per step, to which a further fit and a resumed run append.
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include <cordee/core/error.hpp>
#include <cordee/core/owned_ptr.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The integer behind the first `key` of a line, if there is one.
[[nodiscard]] std::optional<std::int64_t> integer_behind(const auto& line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == line.npos) return {};
  std::int64_t value = 0;
  const char* const first = line.data() + at + key.size();
  const auto status = std::from_chars(first, line.data() + line.size(), value).ec;
  return status == std::errc{} ? std::optional(value) : std::nullopt;
}

/// Members are templates, so that programs that log nothing do not compile them.
class step_log {
 public:
  step_log(const char* owner, std::string path) : owner_(owner), path_(std::move(path)) {}

  /// Throws error where open() would, and changes nothing.
  template <class IsFirst>
  void check(bool resumed, const IsFirst& is_first) const {
    if (file_) return;
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    struct ::stat status {};
    const bool exists = ::stat(path_.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) errno = EISDIR;
    if ((exists && S_ISDIR(status.st_mode)) ||
        ::access(exists ? path_.c_str() : folder.c_str(), exists ? W_OK : W_OK | X_OK) != 0)
      fail("open");
    if (!exists || !resumed) return;
    if (const auto file = open_regular("r")) (void)has_lines(file.get(), is_first);
  }

  /// Opens the file, anew unless this object has it open or the run is resumed. Where it is, and of
  /// an open file where the fit before threw, the lines from the first one that `repeated(line)`
  /// accepts on are removed, and an incomplete last one.
  /// Returns whether it appends. Throws error, too if `is_first(line)` is false: another table.
  template <class IsFirst, class Repeated>
  bool open(bool resumed, const IsFirst& is_first, const Repeated& repeated) {
    const bool goes_on = file_ && !(in_fit_ && resumed && is_regular());
    in_fit_ = true;
    if (goes_on) return true;
    file_.reset();
    const bool appends = resumed && cut(is_first, repeated);
    file_.reset(std::fopen(path_.c_str(), appends ? "a" : "w"));
    if (!file_) fail("open");
    // A line is written when it ends: a run that is resumed after kill -9 misses none in its log.
    std::setvbuf(file_.get(), nullptr, _IOLBF, BUFSIZ);
    return appends;
  }
  /// Whether a fit has begun that has not ended: it threw, if another one begins.
  [[nodiscard]] bool is_in_fit() const { return in_fit_; }
  /// Ends the log of one fit.
  void end(const auto&... none) {
    flush(none...);
    in_fit_ = false;
  }
  void put(const auto& text) {
    if (std::fputs(text, file_.get()) < 0) fail("write");
  }
  void flush(const auto&... none) {
    static_assert(sizeof...(none) == 0);
    if (file_ && std::fflush(file_.get()) != 0) fail("write");
  }

 private:
  struct file_closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };

  using owned_file = core::owned_ptr<std::FILE, file_closer>;
  [[nodiscard]] bool is_regular() const {
    struct ::stat status {};
    return ::stat(path_.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  }
  // Null for what is no regular file: of a pipe nothing is read.
  [[nodiscard]] owned_file open_regular(const auto* mode) const {
    return owned_file(is_regular() ? std::fopen(path_.c_str(), mode) : nullptr);
  }
  // Returns false at an incomplete line, too.
  static bool next_line(std::FILE* file, auto& line) {
    line.clear();
    for (int c = 0; (c = std::fgetc(file)) != EOF;) {
      line += static_cast<char>(c);
      if (c == '\n') return true;
    }
    return false;
  }
  // Returns false for an empty file. Throws error for another table.
  template <class IsFirst>
  [[nodiscard]] bool has_lines(std::FILE* file, const IsFirst& is_first) const {
    std::string line;
    const bool whole = next_line(file, line);
    if (line.empty()) return false;
    if (!whole || !is_first(line))
      throw error(
          concat(owner_, ": \"", path_,
                 "\" has other columns or fields, so that a resumed run cannot append to it; name "
                 "another file"));
    return true;
  }

  // Returns false if there is no such file, or it is empty.
  template <class IsFirst, class Repeated>
  [[nodiscard]] bool cut(const IsFirst& is_first, const Repeated& repeated) const {
    const auto file = open_regular("r+");
    if (!file || !has_lines(file.get(), is_first)) return false;
    std::string line;
    long keep = 0;  // bytes
    do {
      keep = std::ftell(file.get());
    } while (next_line(file.get(), line) && !repeated(line));
    if (::ftruncate(fileno(file.get()), keep) != 0) fail("shorten");
    return true;
  }
  [[noreturn]] void fail(const auto& verb) const {
    throw error(concat(owner_, ": cannot ", verb, " \"", path_, "\": ", std::strerror(errno),
                       "; name a file in a folder that exists and has room"));
  }

  const char* owner_;
  std::string path_;
  owned_file file_;
  bool in_fit_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
