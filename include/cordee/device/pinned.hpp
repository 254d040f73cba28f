// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Page-locked host memory: asynchronous copies need no staging.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

template <class D>
concept PinnedAllocator = Device<D> && requires(const D d, std::size_t n, void* p) {
  { d.pin(n) } -> std::same_as<void*>;  // throws cordee::error
  { d.unpin(p) } noexcept;
};

/// `size` numbers, not initialized. Movable, not copyable.
template <class T, PinnedAllocator D>
  requires std::is_trivially_copyable_v<T>
class pinned {
 public:
  pinned() = default;
  pinned(const D& device, std::size_t size)
      : device_(device), data_(static_cast<T*>(device_.pin(size * sizeof(T)))), size_(size) {}
  pinned(pinned&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  pinned& operator=(pinned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~pinned() { device_.unpin(data_); }

  [[nodiscard]] std::span<T> span() const { return {data_, size_}; }

  /// Effects: afterwards span().size() >= size. If it grows, the old contents are lost.
  void reserve(std::size_t size) {
    if (size > size_) *this = pinned(device_, size);
  }

 private:
  D device_{};
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
