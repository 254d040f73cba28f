// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The cells of the tables that the matrix prints.
#pragma once

#include <string>
#include <vector>

namespace matrix {

/// The result of one combination.
struct cell {
  enum class outcome { runs, not_compiled, not_constructed, broken } result = outcome::broken;
  char assertion = ' ';  // not_compiled: the letter of the failed static_assert in the legend
  std::string reason;    // not_constructed: the exception's text; broken: what went wrong
};

/// A precision on a device, with one optimizer and reducer for each of `exchanges`.
struct precision_row {
  std::string name;
  std::vector<cell> cells;
};
extern const std::vector<std::string> exchanges;
std::vector<precision_row> precision_rows();

}  // namespace matrix
