// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A file of names and numbers that describes a machine for simulations (machine.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// The entries of a machine's file, each of which must be used.
class machine_file {
 public:
  explicit machine_file(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      std::string_view rest(line);
      rest = rest.substr(0, rest.find('#'));
      const std::string name(next_word(rest));
      if (name.empty()) continue;
      if (kind_.empty()) {
        kind_ = name;
        continue;
      }
      std::vector<double> values;
      for (std::string_view word; !(word = next_word(rest)).empty();) {
        const auto value = decimal::parse<double>(word);
        if (!value)
          throw error(concat("machine: ", name, " has \"", word, "\", which is not a number"));
        values.push_back(*value);
      }
      if (!entries_.emplace(name, std::move(values)).second)
        throw error(concat("machine: ", name, " is there twice"));
    }
  }
  [[nodiscard]] const std::string& kind() const { return kind_; }

  link_parameters speed(const char* name) {
    const std::vector<double> v = take(name);
    if (v.size() != 2 || !(v[0] >= 0 && v[1] > 0 && std::isfinite(v[0]) && std::isfinite(v[1])))
      throw error(concat("machine: ", name, " has a latency in seconds and bytes a second"));
    return {v[0], v[1]};
  }
  std::array<int, 3> dimensions(const char* name, std::size_t most = 3) {
    std::array<int, 3> all{1, 1, 1};
    const std::vector<double> values = take(name);
    if (values.size() > most) throw error(concat("machine: ", name, " has too many numbers"));
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (!(values[k] >= 1 && values[k] <= 1e6 && values[k] == static_cast<int>(values[k])))
        throw error(concat("machine: ", name, " is a positive integer"));
      all[k] = static_cast<int>(values[k]);
    }
    return all;
  }
  int count(const char* name) { return dimensions(name, 1)[0]; }
  void expect_end() const {
    if (!entries_.empty())
      throw error(concat("machine: a ", kind_, " has no ", entries_.begin()->first));
  }

 private:
  /// Up to white space, cut off `rest`; empty at its end.
  static std::string_view next_word(std::string_view& rest) {
    constexpr std::string_view space = " \t\r\v\f";
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(space)));
    const std::string_view word = rest.substr(0, rest.find_first_of(space));
    rest.remove_prefix(word.size());
    return word;
  }
  std::vector<double> take(const char* name) {
    const auto entry = entries_.find(name);
    if (entry == entries_.end() || entry->second.empty())
      throw error(concat("machine: a ", kind_, " needs a line that begins with ", name));
    std::vector<double> values = std::move(entry->second);
    entries_.erase(entry);
    return values;
  }

  std::string kind_;
  std::map<std::string, std::vector<double>> entries_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
