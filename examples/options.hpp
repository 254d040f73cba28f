// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// "--name value" for the examples: each option says its default and what it is for.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/core/error.hpp>

namespace examples {

class options {
 public:
  options(int argc, char** argv, std::string purpose)
      : words_(argv + 1, argv + argc), help_(std::move(purpose) + "\n\n") {}

  std::string text(std::string_view name, std::string by_default, std::string_view what) {
    help_ += cordee::text("  --", name, " ", by_default.empty() ? "VALUE" : by_default, "\n      ",
                          what, "\n");
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != "--" + std::string(name)) continue;
      if (i + 1 == words_.size()) throw cordee::error(cordee::text("--", name, " needs a value"));
      const std::string value = words_[i + 1];
      words_.erase(words_.begin() + static_cast<long>(i),
                   words_.begin() + static_cast<long>(i) + 2);
      return value;
    }
    return by_default;
  }
  double number(std::string_view name, double by_default, std::string_view what) {
    const std::string value = text(name, cordee::text(by_default), what);
    char* end = nullptr;
    const double x = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0')
      throw cordee::error(cordee::text("--", name, " takes a number, not \"", value, "\""));
    return x;
  }
  int whole(std::string_view name, int by_default, std::string_view what) {
    const double x = number(name, by_default, what);
    if (!(x >= 0 && x <= 1e9) || x != std::floor(x))
      throw cordee::error(cordee::text("--", name, " takes a whole number up to 1e9, not ", x));
    return static_cast<int>(x);
  }
  bool flag(std::string_view name, std::string_view what) {
    help_ += cordee::text("  --", name, "\n      ", what, "\n");
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (words_[i] == "--" + std::string(name)) {
        words_.erase(words_.begin() + static_cast<long>(i));
        return true;
      }
    return false;
  }

  /// After the last option: prints the help if it was asked for, refuses what nobody asked about.
  void done() {
    for (const std::string& word : words_) {
      if (word == "--help" || word == "-h") {
        std::fputs(help_.c_str(), stdout);
        std::exit(EXIT_SUCCESS);
      }
      throw cordee::error(cordee::text("unknown option \"", word, "\"; try --help"));
    }
  }

 private:
  std::vector<std::string> words_;
  std::string help_;
};

/// main's body: an error is one line on stderr and a non-zero exit.
template <class F>
int run(const F& f) {
  try {
    f();
    return EXIT_SUCCESS;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
  }
}

}  // namespace examples
