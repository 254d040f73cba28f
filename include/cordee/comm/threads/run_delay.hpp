// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// For how long threads of this process had work and no core: on a busy machine a rank may make no
// progress for seconds, and is not stuck.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <dirent.h>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Counts from its construction.
class run_delay {
 public:
  [[gnu::cold]] run_delay() : before_(read()) {}

  /// Of the thread that has lacked a core for longest; 0 where the system does not tell
  /// (/proc/self/task/*/schedstat).
  [[nodiscard, gnu::cold]] std::chrono::milliseconds longest() const {
    std::chrono::nanoseconds most{0};
    for (const auto& [thread, delay] : read())
      if (const auto known = before_.find(thread); known != before_.end())
        most = std::max(most, delay - known->second);
    return std::chrono::duration_cast<std::chrono::milliseconds>(most);
  }

 private:
  using delays = std::map<int, std::chrono::nanoseconds>;  // by thread

  [[gnu::cold]] static delays read() {
    delays found;
    DIR* const folder = opendir("/proc/self/task");
    if (folder == nullptr) return found;
    while (const dirent* entry = readdir(folder)) {
      const std::string path = std::string("/proc/self/task/") + entry->d_name + "/schedstat";
      std::FILE* const file = std::fopen(path.c_str(), "re");
      if (file == nullptr) continue;
      long long on_core = 0, waiting = 0;
      if (std::fscanf(file, "%lld %lld", &on_core, &waiting) == 2)
        found[std::atoi(entry->d_name)] = std::chrono::nanoseconds(waiting);
      std::fclose(file);
    }
    closedir(folder);
    return found;
  }

  const delays before_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
