// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The results of an experiment's runs, one line of CSV each, so that an experiment which is
// interrupted continues where it was: a run whose line is there is not repeated.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>

namespace science {

class results {
 public:
  /// `header` names the columns of a run's key, then "value,seconds". Throws cordee::error for a
  /// file of another experiment.
  results(std::string path, const std::string& header) : path_(std::move(path)) {
    std::ifstream in(path_);
    std::string line;
    if (std::getline(in, line) && line != header)
      throw cordee::error(cordee::concat(path_, " begins with \"", line, "\", not \"", header,
                                         "\": name another file"));
    const bool is_new = line.empty();
    while (std::getline(in, line)) {
      const std::size_t seconds = line.rfind(','), value = line.rfind(',', seconds - 1);
      if (seconds == std::string::npos || value == std::string::npos) continue;  // cut short
      const std::string number = line.substr(value + 1, seconds - value - 1);
      const auto known = cordee::decimal::parse<double>(number);
      if (!known) throw cordee::error(cordee::concat(path_, ": \"", number, "\" is not a number"));
      known_[line.substr(0, value)] = *known;
    }
    if (is_new) append(header);
  }

  /// The value of the run with this key: of its line, or of run(), which is written.
  template <class F>
  double operator()(const std::string& key, const F& run) {
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const auto begin = std::chrono::steady_clock::now();
    const double value = run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    append(cordee::concat(key, ",", value, ",", took.count()));
    return known_[key] = value;
  }

 private:
  void append(const std::string& line) const {
    std::ofstream out(path_, std::ios::app);
    out << line << "\n" << std::flush;
    if (!out) throw cordee::error("cannot write " + path_ + ": check the folder and the disk");
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  std::string path_;
  std::map<std::string, double> known_;
};

/// Mean and standard deviation over the seeds.
struct spread {
  double mean = 0, deviation = 0;
};

inline spread spread_of(const std::vector<double>& x) {
  spread s;
  for (const double v : x) s.mean += v / static_cast<double>(x.size());
  for (const double v : x) s.deviation += (v - s.mean) * (v - s.mean);
  s.deviation = x.size() > 1 ? std::sqrt(s.deviation / static_cast<double>(x.size() - 1)) : 0;
  return s;
}

}  // namespace science
