// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An emulated GPU that counts the bytes of its memory and of the link to the host, and keeps time:
// each stream has a clock, which copies over the link and `work` move on, and which events join.
// The host's clock is that of what it has waited for; nothing begins before it was launched. A
// rank's threads share a device, so what changes its counts locks them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/emulated.hpp"

namespace support {

class linked_device {
 public:
  static constexpr std::string_view name = "linked";
  static constexpr bool host_memory = false;

  struct counts {
    std::size_t device_bytes = 0, pinned_bytes = 0, down = 0, up = 0;  // of memory; of the link
    double host_time = 0;
    double bytes_per_time = 1;
    std::map<const void*, std::pair<std::size_t, bool>> memory;  // bytes; whether it is pinned
    std::vector<std::unique_ptr<double>> clocks;
    std::recursive_mutex mutex;

    [[nodiscard]] bool on_device(const void* p) const {
      auto next = memory.upper_bound(p);
      if (next == memory.begin()) return false;
      --next;
      return !next->second.second &&
             static_cast<const std::byte*>(p) <
                 static_cast<const std::byte*>(next->first) + next->second.first;
    }
  };
  struct event {
    double time = 0;
  };
  struct stream : emulated::stream {
    counts* of = nullptr;
    double* clock = nullptr;

    stream() : emulated::stream(1) {}
    void work(double time) const {
      if (clock == nullptr) return;
      const std::scoped_lock lock(of->mutex);
      *clock = std::max(*clock, of->host_time) + time;
    }
  };

  [[nodiscard]] counts& count() const { return *counts_; }
  [[nodiscard]] stream make_stream() const {
    const std::scoped_lock lock(counts_->mutex);
    counts_->clocks.push_back(std::make_unique<double>(0));
    stream s;
    s.of = counts_.get();
    s.clock = counts_->clocks.back().get();
    return s;
  }
  [[nodiscard]] void* allocate(std::size_t size) const { return add(size, false); }
  void release(void* memory) const noexcept {
    const std::scoped_lock lock(counts_->mutex);
    const auto at = counts_->memory.find(memory);
    if (at != counts_->memory.end()) {
      (at->second.second ? counts_->pinned_bytes : counts_->device_bytes) -= at->second.first;
      counts_->memory.erase(at);
    }
    emulated{}.release(memory);
  }
  [[nodiscard]] void* pin(std::size_t size) const { return add(size, true); }
  void unpin(void* memory) const noexcept { release(memory); }
  void copy(void* out, const void* in, std::size_t size, stream s) const {
    const std::scoped_lock lock(counts_->mutex);
    const bool from = counts_->on_device(in), to = counts_->on_device(out);
    if (from && !to) counts_->down += size;
    if (!from && to) counts_->up += size;
    if (from != to) s.work(static_cast<double>(size) / counts_->bytes_per_time);
    s.copy(out, in, size);
  }
  void clear(void* out, std::size_t size, stream s) const { emulated{}.clear(out, size, s); }
  [[nodiscard]] event record(stream s) const {
    const std::scoped_lock lock(counts_->mutex);
    return {s.clock == nullptr ? 0 : std::max(*s.clock, counts_->host_time)};
  }
  void await(stream s, const event& e) const {
    const std::scoped_lock lock(counts_->mutex);
    if (s.clock != nullptr) *s.clock = std::max(*s.clock, e.time);
  }
  void finish(stream s) const {
    const std::scoped_lock lock(counts_->mutex);
    if (s.clock != nullptr) counts_->host_time = std::max(counts_->host_time, *s.clock);
  }

 private:
  void* add(std::size_t size, bool pinned) const {
    void* const memory = emulated{}.allocate(size);
    if (memory == nullptr) return memory;
    const std::scoped_lock lock(counts_->mutex);
    counts_->memory[memory] = {size, pinned};
    (pinned ? counts_->pinned_bytes : counts_->device_bytes) += size;
    return memory;
  }

  std::shared_ptr<counts> counts_ = std::make_shared<counts>();
};
static_assert(cordee::Device<linked_device> && cordee::GpuStream<linked_device::stream>);

}  // namespace support
