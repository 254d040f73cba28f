// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host that a device copies from and to while both go on with their work: it stays
// where it is, so that nobody has to look on.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

template <class D>
concept Pins = Device<D> && requires(const D d, std::size_t n, void* p) {
  { d.pin(n) } -> std::same_as<void*>;  // throws cordee::error
  { d.unpin(p) } noexcept;
};

/// Room for numbers, not initialised. Movable, not copyable.
template <class T, Pins D>
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

  /// Room for at least `size` numbers; what was there is lost when it grows.
  void reserve(std::size_t size) {
    if (size > size_) *this = pinned(device_, size);
  }

 private:
  D device_{};
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI
