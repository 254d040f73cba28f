// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What cmake/locale.cmake refuses, and what it does not; never compiled.
#include <fstream>
#include <locale>
#include <string>

int main() {
  std::ofstream table("table.csv");
  table << 1234 << ',' << 0.5 << '\n';
  std::ofstream imbued("imbued.csv");
  imbued.imbue(std::locale::classic());
  imbued << 0.5 << '\n';
  std::ifstream lines("table.csv");
  for (std::string line; std::getline(lines, line);) std::puts(line.c_str());
}
