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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include <cordee/core/error.hpp>

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

  /// Opens the file, anew unless this object has it open or the run is resumed. Then the lines from
  /// the first one that `repeated(line)` accepts on are removed, and an incomplete last one.
  /// Returns whether it appends. Throws error, too if `is_first(line)` is false: another table.
  template <class IsFirst, class Repeated>
  bool open(bool resumed, const IsFirst& is_first, const Repeated& repeated) {
    const bool appends = file_ != nullptr || (resumed && cut(is_first, repeated));
    if (file_) return appends;
    file_.reset(std::fopen(path_.c_str(), appends ? "a" : "w"));
    if (!file_) fail("open");
    // A line is written when it ends: a run that is resumed after kill -9 misses none in its log.
    std::setvbuf(file_.get(), nullptr, _IOLBF, BUFSIZ);
    return appends;
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

  // Returns false if there is no such file, or it is empty.
  template <class IsFirst, class Repeated>
  [[nodiscard]] bool cut(const IsFirst& is_first, const Repeated& repeated) const {
    const std::unique_ptr<std::FILE, file_closer> file(std::fopen(path_.c_str(), "r+"));
    if (!file) return false;
    std::string line;
    const auto next = [&] {
      line.clear();
      for (int c = 0; (c = std::fgetc(file.get())) != EOF;) {
        line += static_cast<char>(c);
        if (c == '\n') return true;
      }
      return false;
    };
    const bool whole = next();
    if (line.empty()) return false;
    if (!whole || !is_first(line))
      throw error(
          concat(owner_, ": \"", path_,
                 "\" has other columns or fields, so that a resumed run cannot append to it; name "
                 "another file"));
    long keep = 0;  // bytes
    do {
      keep = std::ftell(file.get());
    } while (next() && !repeated(line));
    if (::ftruncate(fileno(file.get()), keep) != 0) fail("shorten");
    return true;
  }
  [[noreturn]] void fail(const auto& verb) const {
    throw error(concat(owner_, ": cannot ", verb, " \"", path_, "\": ", std::strerror(errno),
                       "; name a file in a folder that exists and has room"));
  }

  const char* owner_;
  std::string path_;
  std::unique_ptr<std::FILE, file_closer> file_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
