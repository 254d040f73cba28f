// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A deferred GPU that counts the bytes of its memory and those copied from page-locked memory, and
// that can leave out waits of one stream for another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>

#include "tests/support/deferred.hpp"

namespace support {

enum class missing_wait {
  none,
  of_compute,  // of the stream named `compute`
  of_others
};

class counted_uploads : public deferred {
 public:
  struct counts {
    std::size_t device = 0, pinned = 0;  // bytes held
    std::size_t uploaded = 0;            // bytes copied from page-locked memory to the device's
    std::size_t downloaded = 0;          // and back
    std::map<const std::byte*, std::size_t> pinned_at, device_at;
    const void* compute = nullptr;
    missing_wait missing = missing_wait::none;
    event last_of_others;  // recorded last on another stream than `compute`
  };

  explicit counted_uploads(std::uint64_t seed = 0)
      : deferred(seed), counts_(std::make_shared<counts>()) {}

  [[nodiscard]] counts& counted() const { return *counts_; }
  /// A stream, the one that counts as `compute`.
  [[nodiscard]] stream make_compute_stream() const {
    const stream s = make_stream();
    counts_->compute = s.work_queue;
    return s;
  }

  [[nodiscard]] void* allocate(std::size_t size) const {
    void* const memory = deferred::allocate(size);
    counts_->device += size;
    if (size != 0) counts_->device_at[static_cast<std::byte*>(memory)] = size;
    return memory;
  }
  void release(void* memory) const noexcept {
    if (memory != nullptr) {
      const auto at = counts_->device_at.find(static_cast<std::byte*>(memory));
      counts_->device -= at->second;
      counts_->device_at.erase(at);
    }
    deferred::release(memory);
  }
  [[nodiscard]] void* pin(std::size_t size) const {
    void* const memory = deferred::allocate(size);
    counts_->pinned += size;
    if (size != 0) counts_->pinned_at[static_cast<std::byte*>(memory)] = size;
    return memory;
  }
  void unpin(void* memory) const noexcept {
    if (memory != nullptr) {
      const auto at = counts_->pinned_at.find(static_cast<std::byte*>(memory));
      counts_->pinned -= at->second;
      counts_->pinned_at.erase(at);
    }
    deferred::release(memory);
  }
  void copy(void* out, const void* in, std::size_t size, stream s) const {
    if (is_of(counts_->pinned_at, in) && is_of(counts_->device_at, out)) counts_->uploaded += size;
    if (is_of(counts_->device_at, in) && is_of(counts_->pinned_at, out))
      counts_->downloaded += size;
    deferred::copy(out, in, size, s);
  }
  [[nodiscard]] event record(stream s) const {
    const event e = deferred::record(s);
    if (s.work_queue != counts_->compute) counts_->last_of_others = e;
    return e;
  }
  void await(stream s, const event& e) const {
    const missing_wait this_one =
        s.work_queue == counts_->compute ? missing_wait::of_compute : missing_wait::of_others;
    if (counts_->missing != this_one) deferred::await(s, e);
  }

 private:
  static bool is_of(const std::map<const std::byte*, std::size_t>& memory, const void* p) {
    const auto* const at = static_cast<const std::byte*>(p);
    const auto next = memory.upper_bound(at);
    return next != memory.begin() && at < std::prev(next)->first + std::prev(next)->second;
  }

  std::shared_ptr<counts> counts_;
};

}  // namespace support
