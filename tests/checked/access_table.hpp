// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The table memory_access.tsv.
#pragma once

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace checked {

/// A kernel's row of the table. Ratios are 1 where there are no accesses of the kind.
struct row {
  double global_load = 1, global_store = 1, shared_load = 1, shared_store = 1;
  std::size_t bytes_read = 0, bytes_written = 0;
  std::size_t formula_read = 0, formula_written = 0;  // of a whole pass
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
  char numbers[128];
  std::snprintf(numbers, sizeof(numbers), "\t%.3f\t%.3f\t%.3f\t%.3f\t%zu\t%zu\t%zu\t%zu",
                r.global_load, r.global_store, r.shared_load, r.shared_store, r.bytes_read,
                r.bytes_written, r.formula_read, r.formula_written);
  return key + numbers;
}
inline void write(const table& rows, const std::string& path) {
  std::ofstream out(path);
  out << "pass\tkernel\tglobal load\tglobal store\tshared load\tshared store\tbytes read\t"
         "bytes written\tformula read\tformula written\n";
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
    fields >> r.global_load >> r.global_store >> r.shared_load >> r.shared_store >> r.bytes_read >>
        r.bytes_written >> r.formula_read >> r.formula_written;
  }
  return rows;
}

}  // namespace checked
