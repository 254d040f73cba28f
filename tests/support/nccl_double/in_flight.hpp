// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of the double of NCCL: which communicators of a GPU have operations in flight.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace nccl_double {

/// Operations that were launched while one of another communicator of their GPU was in flight.
inline std::atomic<int> overlapping{0};

/// An operation of a communicator, in flight from the call until the last copy is destroyed.
class in_flight {
 public:
  in_flight(int gpu, const void* comm) : operation_(std::make_shared<entry>(gpu, comm)) {}

 private:
  struct entry {
    entry(int gpu, const void* communicator) : of(gpu, communicator) {
      const std::scoped_lock lock(mutex);
      for (const auto& [other, n] : counts)
        if (n > 0 && other.first == gpu && other.second != communicator) ++overlapping;
      ++counts[of];
    }
    entry(const entry&) = delete;
    entry& operator=(const entry&) = delete;
    ~entry() {
      const std::scoped_lock lock(mutex);
      --counts[of];
    }
    const std::pair<int, const void*> of;
    inline static std::mutex mutex;
    inline static std::map<std::pair<int, const void*>, int> counts;
  };
  std::shared_ptr<const entry> operation_;
};

}  // namespace nccl_double
