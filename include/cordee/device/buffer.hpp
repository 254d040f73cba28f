// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Owned memory on a device.
#pragma once

#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::device {

/// The memory of a buffer, independent of its type of numbers, so that it is compiled once for a
/// device. Out of line: none of it is hot, and a copy of a device changes a reference count.
template <Device D>
class owned_memory {
 public:
  owned_memory() = default;
  [[gnu::cold, gnu::noinline]] owned_memory(const D& device, std::size_t size, std::size_t width)
      : device_(device), size_(size) {
    expects(size <= core::limits<std::size_t>::max() / width,
            "buffer: the size in bytes overflows");
    data_ = device.allocate(size * width);
    const typename D::stream s{};
    device.clear(data_, size * width, s);
    device.finish(s);
  }
  [[gnu::cold, gnu::noinline]] owned_memory(owned_memory&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  [[gnu::cold, gnu::noinline]] owned_memory& operator=(owned_memory&& other) noexcept {
    if (this != &other) {
      this->~owned_memory();
      ::new (this) owned_memory(std::move(other));
    }
    return *this;
  }
  [[gnu::noinline]] ~owned_memory() {
    if (device_) device_->release(data_);
  }

  [[gnu::noinline]] void reserve(std::size_t size, std::size_t width) {
    if (size > size_) grow(size, width);
  }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  [[gnu::cold, gnu::noinline]] void grow(std::size_t size, std::size_t width) {
    if (!device_) device_.emplace();
    *this = owned_memory(*device_, size, width);
  }

  std::optional<D> device_;  // none while empty: a default device is a choice of a GPU
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail::device

/// `size` numbers of device memory, initially zero. Movable, not copyable.
template <class T, Device D>
  requires std::is_trivially_copyable_v<T>
class buffer {
 public:
  buffer() = default;
  /// Allocates on the device. @throws error if memory is exhausted, usage_error if the size in
  /// bytes overflows.
  buffer(const D& device, std::size_t size) : memory_(device, size, sizeof(T)) {}

  /// Size in numbers, not bytes.
  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  /// All numbers; valid until the buffer grows or is destroyed.
  [[nodiscard]] span_on<T, D> span() { return {static_cast<T*>(memory_.data()), size()}; }
  /// The same, read-only.
  [[nodiscard]] span_on<const T, D> span() const {
    return {static_cast<const T*>(memory_.data()), size()};
  }

  /// Ensures size() >= size. If the buffer grows, its contents are lost and zero.
  void reserve(std::size_t size) { memory_.reserve(size, sizeof(T)); }

 private:
  detail::device::owned_memory<D> memory_;
};

namespace detail::device {
/// Blocks the host until the work that precedes `e` is complete; not at all if it is already. A
/// device without a wait of its own waits for stream `s`, with all that was submitted to it.
template <Device D>
void wait_for(const D& device, const typename D::event& e, typename D::stream s) {
  if constexpr (requires { device.wait(e); }) {
    device.wait(e);
  } else {
    device.await(s, e);
    device.finish(s);
  }
}
}  // namespace detail::device

/// A host copy of `source` after all earlier work of the stream. Blocks the host.
template <class Real, Device D>
std::vector<Real> copy_to_host(const D& device, span_on<const Real, D> source,
                               typename D::stream s) {
  std::vector<Real> out(source.size);
  device.copy(out.data(), source.data, source.size * sizeof(Real), s);
  device.finish(s);
  return out;
}

}  // namespace cordee::inline CORDEE_ABI
