// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A stream's temporary memory as a stack.
//
// Temporary memory of a stream is released in the reverse order of its allocation (stream_buffer),
// and the same work needs the same memory in each step. So a step takes it from one block, which
// grows to the most that was ever in use at once: after the first step nothing is allocated. Memory
// that is released is reused at once, which is right since the stream's work is in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// `Memory` allocates in the order of a stream: allocate(n) throws, try_allocate(n) returns null
/// instead, release(p) never throws, and may_grow() is false while allocations would be captured in
/// a graph.
template <class Memory>
class stack_arena {
 public:
  explicit stack_arena(Memory memory) : memory_(memory) {}
  stack_arena(const stack_arena&) = delete;
  stack_arena& operator=(const stack_arena&) = delete;
  ~stack_arena() {
    if (block_ != nullptr) memory_.release(block_);
  }

  /// The size of the block. While it is the same, so are the addresses of the same allocations.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  /// Memory aligned to 256 bytes, null for none: part of the block, or where that is too small an
  /// allocation of its own.
  [[nodiscard]] void* allocate(std::size_t size) {
    if (size == 0) return nullptr;
    const std::size_t padded = (size + alignment - 1) / alignment * alignment;
    allocation a{nullptr, padded, top_ + padded <= capacity_};
    allocations_.reserve(allocations_.size() + 1);
    if (a.in_block) {
      a.data = block_ + top_;
      top_ += padded;
    } else {
      a.data = static_cast<std::byte*>(memory_.allocate(padded));
    }
    allocations_.push_back(a);
    in_use_ += padded;
    peak_ = std::max(peak_, in_use_);
    return a.data;
  }
  /// Any order is allowed; memory of the block is reused once all behind it is released.
  void release(void* data) noexcept {
    if (data == nullptr) return;
    for (auto a = allocations_.rbegin(); a != allocations_.rend(); ++a)
      if (a->data == data && !a->released) {
        a->released = true;
        if (!a->in_block) memory_.release(data);
        break;
      }
    while (!allocations_.empty() && allocations_.back().released) {
      if (allocations_.back().in_block) top_ -= allocations_.back().size;
      in_use_ -= allocations_.back().size;
      allocations_.pop_back();
    }
    if (allocations_.empty() && peak_ > capacity_ && memory_.may_grow()) grow();
  }

 private:
  static constexpr std::size_t alignment = 256;

  struct allocation {
    std::byte* data;
    std::size_t size;
    bool in_block;
    bool released = false;
  };

  // Without memory for it the block stays as it is, and larger allocations are made one by one.
  void grow() noexcept {
    void* const larger = memory_.try_allocate(peak_);
    if (larger == nullptr) return;
    if (block_ != nullptr) memory_.release(block_);
    block_ = static_cast<std::byte*>(larger);
    capacity_ = peak_;
  }

  Memory memory_;
  std::byte* block_ = nullptr;
  std::size_t capacity_ = 0, top_ = 0;  // bytes of the block, and of it in use
  std::size_t in_use_ = 0, peak_ = 0;   // bytes, of the block or not
  std::vector<allocation> allocations_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
