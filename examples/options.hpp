// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options "--name value" of the examples, with a default and a line of help each.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>

namespace examples {

class options {
 public:
  options(int argc, char** argv, std::string purpose)
      : words_(argv + 1, argv + argc), help_(std::move(purpose) + "\n\n") {}

  std::string string(std::string_view name, std::string default_value,
                     std::string_view description) {
    help_ += cordee::concat("  --", name, " ", default_value.empty() ? "VALUE" : default_value,
                            "\n      ", description, "\n");
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != "--" + std::string(name)) continue;
      if (i + 1 == words_.size()) throw cordee::error(cordee::concat("--", name, " needs a value"));
      const std::string value = words_[i + 1];
      words_.erase(words_.begin() + static_cast<long>(i),
                   words_.begin() + static_cast<long>(i) + 2);
      return value;
    }
    return default_value;
  }
  double number(std::string_view name, double default_value, std::string_view description) {
    const std::string value = string(name, cordee::concat(default_value), description);
    const auto x = cordee::decimal::parse<double>(value);
    if (!x) throw cordee::error(cordee::concat("--", name, " takes a number, not \"", value, "\""));
    return *x;
  }
  int whole(std::string_view name, int default_value, std::string_view description) {
    const double x = number(name, default_value, description);
    if (!(x >= 0 && x <= 1e9) || x != std::floor(x))
      throw cordee::error(cordee::concat("--", name, " takes a whole number up to 1e9, not ", x));
    return static_cast<int>(x);
  }
  int positive(std::string_view name, int default_value, std::string_view description) {
    const int n = whole(name, default_value, description);
    if (n == 0) throw cordee::error(cordee::concat("--", name, " takes at least 1, not 0"));
    return n;
  }
  std::uint64_t seed(std::string_view description = "seed of weights, order and augmentation") {
    return static_cast<std::uint64_t>(whole("seed", 1, description));
  }
  bool flag(std::string_view name, std::string_view description) {
    help_ += cordee::concat("  --", name, "\n      ", description, "\n");
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (words_[i] == "--" + std::string(name)) {
        words_.erase(words_.begin() + static_cast<long>(i));
        return true;
      }
    return false;
  }

  /// After the last option: prints the help and exits if --help is given. Throws on unknown
  /// options.
  void done() {
    for (const std::string& word : words_) {
      if (word == "--help" || word == "-h") {
        std::fputs(help_.c_str(), stdout);
        std::exit(EXIT_SUCCESS);
      }
      throw cordee::error(cordee::concat("unknown option \"", word, "\"; try --help"));
    }
  }

 private:
  std::vector<std::string> words_;
  std::string help_;
};

/// The body of main: an exception becomes one line on stderr and a non-zero exit status.
template <class F>
int run(const F& f) {
  try {
    f();
    return EXIT_SUCCESS;
  } catch (const cordee::aborted&) {  // another process prints the cause
    return EXIT_FAILURE;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
  }
}

}  // namespace examples
