// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the tables of the matrix are made of.
#pragma once

#include <string>
#include <vector>

namespace matrix {

/// What became of a pairing. The words are the table's; `why` names a sentence of the legend.
struct cell {
  enum class outcome { runs, not_compiled, not_constructed, broken } what = outcome::broken;
  char kind = ' ';  // of what does not compile: which of the library's sentences says so
  std::string why;  // of the others
};

/// A precision on a device, with one pair of rule and reducer for each of `exchanges`.
struct precision_row {
  std::string name;
  std::vector<cell> cells;
};
extern const std::vector<std::string> exchanges;
std::vector<precision_row> precision_rows();

}  // namespace matrix
