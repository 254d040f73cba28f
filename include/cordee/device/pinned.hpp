// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Page-locked host memory: asynchronous copies need no staging.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include <cordee/core/span_on.hpp>
#include <cordee/device/buffer.hpp>

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

/// A buffer's interface to page-locked memory, which kernels of D may read and write, too: zeros
/// initially.
template <class T, PinnedAllocator D>
class pinned_buffer {
 public:
  pinned_buffer(const D& device, std::size_t size) : memory_(device, size) {
    if (size != 0) std::memset(static_cast<void*>(memory_.span().data()), 0, size * sizeof(T));
  }
  [[nodiscard]] std::size_t size() const { return memory_.span().size(); }
  [[nodiscard]] span_on<T, D> span() { return {memory_.span().data(), size()}; }
  [[nodiscard]] span_on<const T, D> span() const { return {memory_.span().data(), size()}; }

 private:
  pinned<T, D> memory_;
};

template <class T, Device D, bool OnHost>
struct placed_memory_type {
  using type = buffer<T, D>;
};
template <class T, Device D>
struct placed_memory_type<T, D, true> {
  static_assert(
      PinnedAllocator<D>,
      "on_host: it moves state from a GPU to the host: on a CPU, where all of it is on the "
      "host, name the optimizer inside");
  using type = pinned_buffer<T, D>;
};
/// Memory of D, or page-locked memory of the host that D's kernels read and write.
template <class T, Device D, bool OnHost>
using placed_memory = typename placed_memory_type<T, D, OnHost>::type;

}  // namespace cordee::inline CORDEE_ABI::detail::device
