// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Errors of a wrong command line or settings file, and the settings file of a command line.
#pragma once

#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <cordee/core/concat.hpp>

#include "near_option.hpp"

namespace train {

/// CLI11's own checks name a range from 2.2e-308 to 1.8e+308.
inline CLI::Validator number_check(bool with_zero) {
  const char* const kind = with_zero ? "0 or a positive number" : "a positive number";
  return {[=](std::string& text) {
            double x = 0;
            const bool is_number = CLI::detail::lexical_cast(text, x) && std::isfinite(x);
            if (is_number && (x > 0 || (with_zero && x == 0))) return std::string();
            return cordee::concat(text, " is not ", kind);
          },
          with_zero ? "NONNEGATIVE" : "POSITIVE"};
}

/// Prints it, and which option a name that is not known is near to. Returns CLI11's exit status.
inline int report(const CLI::App& app, const CLI::ParseError& e) {
  const int status = app.exit(e);
  if (status == 0) return status;  // --help
  std::vector<std::string> names, unknown;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  for (const std::string& typed : app.remaining())
    if (typed.starts_with('-')) unknown.push_back(typed);
  const std::string text = e.what();
  if (text.starts_with("INI ")) unknown.push_back(text.substr(text.rfind(' ') + 1));
  for (const std::string& typed : unknown)
    if (const std::string name = near_name(typed, names); !name.empty())
      std::fprintf(stderr, "%s: did you mean --%s?\n", typed.c_str(), name.c_str());
  return status;
}

/// The options as a file that --config reads: without empty lists, which CLI11 writes as "[]" and
/// would read as a name, and without the batch that was not given.
inline std::string settings_of(const CLI::App& app) {
  std::string text;
  std::istringstream lines(app.config_to_str(true));
  for (std::string line; std::getline(lines, line);)
    if (!line.ends_with("=\"[]\"") && line != "batch=0" && line != "batch-per-rank=0")
      text += line + "\n";
  return text;
}

}  // namespace train
