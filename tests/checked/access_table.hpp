// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tables memory_access.tsv and integer_network.tsv.
#pragma once

#include <array>
#include <cstddef>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>

namespace checked {

/// A launch's row. Ratios, of global loads and stores and of shared ones, are 1 where there are
/// none; bytes are read, requested and written.
struct row {
  std::array<double, 4> ratios{1, 1, 1, 1};
  std::array<std::size_t, 3> bytes{}, formula{};
};
using table = std::map<std::string, row>;  // by "pass kernel"

/// The kernel's name without namespaces and template arguments; of for_each, that of its function.
inline std::string short_name(std::string name) {
  const std::string wrapper = "for_each_kernel<";
  if (const auto at = name.find(wrapper); at != std::string::npos)
    name = name.substr(at + wrapper.size());
  name = name.substr(0, name.find_first_of("<>"));
  return name.substr(name.rfind(':') + 1);
}

inline std::string format(const std::string& key, const row& r) {
  std::ostringstream line;
  line << key << std::fixed << std::setprecision(3);
  for (const double ratio : r.ratios) line << '\t' << ratio;
  for (std::size_t k = 0; k < r.bytes.size(); ++k)
    line << '\t' << r.bytes[k] << '\t' << r.formula[k];
  return line.str();
}
inline void write(const table& rows, const std::string& path) {
  std::ofstream out(path);
  out << "pass\tkernel\tglobal load\tglobal store\tshared load\tshared store\tread\tformula\t"
         "requested\tformula\twritten\tformula\n";
  for (const auto& [key, r] : rows) out << format(key, r) << '\n';
}
inline table read(const std::string& path) {
  std::ifstream in(path);
  table rows;
  std::string line, pass, kernel;
  for (std::getline(in, line); std::getline(in, line);) {
    std::istringstream fields(line);
    std::getline(fields, pass, '\t');
    std::getline(fields, kernel, '\t');
    row& r = rows[pass + '\t' + kernel];
    for (double& ratio : r.ratios) fields >> ratio;
    for (std::size_t k = 0; k < r.bytes.size(); ++k) fields >> r.bytes[k] >> r.formula[k];
  }
  return rows;
}

}  // namespace checked
