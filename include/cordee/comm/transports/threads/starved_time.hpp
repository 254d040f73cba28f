// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// For how long threads of this process were runnable and had no core: on a busy machine a rank may
// make no progress for seconds, and is not stuck.
//
// The kernel adds a thread's delay to its statistics only when the thread gets a core, which is too
// late; so this samples the threads' states and times on a core.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <dirent.h>
#include <unistd.h>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/pod_vector.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class starved_time {
 public:
  [[gnu::cold]] starved_time() { (void)longest(); }

  /// The longest time for which a thread other than the caller was starved since construction, as
  /// sampled by these calls: a thread runnable at two consecutive calls was starved for the time
  /// between them that it was not on a core. 0 if the system has no /proc/self/task.
  [[gnu::cold]] std::chrono::milliseconds longest() {
    const auto now = clock::now();
    const auto self = static_cast<int>(gettid());
    DIR* const folder = opendir("/proc/self/task");
    if (folder == nullptr) return {};
    while (const dirent* entry = readdir(folder)) {
      const int id = std::atoi(entry->d_name);
      if (id > 0 && id != self) look_at(times_of(id), now);
    }
    closedir(folder);
    seen_ = now;
    clock::duration most{0};
    for (const thread_times& t : threads_) most = std::max(most, t.starved);
    return std::chrono::duration_cast<std::chrono::milliseconds>(most);
  }

 private:
  using clock = std::chrono::steady_clock;
  struct thread_times {
    int id;  // the system's
    bool runnable = false;
    clock::duration on_core{0}, starved{0};
  };

  [[gnu::cold]] thread_times& times_of(int id) {
    for (thread_times& t : threads_)
      if (t.id == id) return t;
    threads_.push_back({id});
    return threads_.back();
  }
  [[nodiscard, gnu::cold]] static std::FILE* open(const thread_times& t, const char* name) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", t.id, name);
    return std::fopen(path, "re");
  }
  [[gnu::cold]] void look_at(thread_times& t, clock::time_point now) const {
    char state = '?';
    long long on_core = 0;
    if (std::FILE* const file = open(t, "stat")) {
      // The second word is the program's name in parentheses.
      if (std::fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = '?';
      std::fclose(file);
    }
    if (std::FILE* const file = open(t, "schedstat")) {
      if (std::fscanf(file, "%lld", &on_core) != 1) state = '?';
      std::fclose(file);
    } else {
      state = '?';
    }
    const auto total =
        std::chrono::duration_cast<clock::duration>(std::chrono::nanoseconds(on_core));
    if (t.runnable && state == 'R')
      t.starved += std::max(clock::duration{0}, (now - seen_) - (total - t.on_core));
    t.runnable = state == 'R';
    t.on_core = total;
  }

  clock::time_point seen_ = clock::now();
  core::pod_vector<thread_times> threads_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
