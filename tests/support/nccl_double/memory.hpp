// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of the double of NCCL: what becomes of memory of ncclMemAlloc, and which uses of it NCCL's guide
// excludes.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace nccl_double {

/// Counts of all ranks.
struct memory_counts {
  int allocated = 0, freed = 0;
  int registered = 0, deregistered = 0;  // of such memory
  int foreign = 0;                       // registrations of other memory, or not from its head on
  int early = 0;                         // freed while registered
  int busy = 0;                          // deregistered or freed while its GPU was working
  bool operator==(const memory_counts&) const = default;
};

class registrable_memory {
 public:
  static registrable_memory& instance() {
    static registrable_memory all;
    return all;
  }
  void allocate(const void* p) {
    const std::scoped_lock lock(mutex_);
    ++counts_.allocated;
    registrations_[p] = 0;
  }
  /// Whether it is memory of ncclMemAlloc.
  bool free(const void* p, bool is_idle) {
    const std::scoped_lock lock(mutex_);
    const auto at = registrations_.find(p);
    if (at == registrations_.end()) return false;
    ++counts_.freed;
    if (at->second > 0) ++counts_.early;
    if (!is_idle) ++counts_.busy;
    registrations_.erase(at);
    return true;
  }
  void enter(const void* p) {
    const std::scoped_lock lock(mutex_);
    const auto at = registrations_.find(p);
    if (at == registrations_.end()) {
      ++counts_.foreign;
    } else {
      ++counts_.registered;
      ++at->second;
    }
  }
  /// By ncclCommDeregister, or by the end of its communicator.
  void leave(const void* p, bool is_idle) {
    const std::scoped_lock lock(mutex_);
    const auto at = registrations_.find(p);
    if (at == registrations_.end() || at->second == 0) return;
    if (!is_idle) ++counts_.busy;
    ++counts_.deregistered;
    --at->second;
  }
  bool is_registered(const void* p) {
    const std::scoped_lock lock(mutex_);
    const auto at = registrations_.find(p);
    return at != registrations_.end() && at->second > 0;
  }
  memory_counts counts() {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }
  void reset() {
    const std::scoped_lock lock(mutex_);
    counts_ = {};
  }

 private:
  std::mutex mutex_;
  std::map<const void*, int> registrations_;  // of each block
  memory_counts counts_;
};

inline bool is_registered_memory(const void* p) {
  return registrable_memory::instance().is_registered(p);
}

}  // namespace nccl_double
