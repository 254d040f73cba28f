// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// For tests of files of weights: a file's path, and the weights of a run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/schedule/constant.hpp>

namespace support {

constexpr constant slow_rate{0.05};

struct file {
  std::string path;
  explicit file(const char* name)
      : path((std::filesystem::temp_directory_path() /
              cordee::concat("cordee-", getpid(), "-", name))
                 .string()) {
    std::filesystem::remove(path);
  }
  ~file() { std::filesystem::remove(path); }
};

template <class Run>
std::vector<double> all_weights(Run& run) {
  std::vector<double> out;
  for (const cordee::segment& s : run.segments())
    for (std::size_t i = 0; i < s.size; ++i)
      out.push_back(static_cast<double>(run.weights()[s.offset + i]));
  return out;
}

}  // namespace support
