// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Owned memory on a device.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

/// `size` numbers of device memory, zero at the start. Movable, not copyable.
template <class T, Device D>
  requires std::is_trivially_copyable_v<T>
class buffer {
 public:
  buffer() = default;
  [[gnu::noinline]] buffer(const D& device, std::size_t size) : device_(device), size_(size) {
    expects(size <= std::numeric_limits<std::size_t>::max() / sizeof(T), "buffer: size overflows");
    data_ = static_cast<T*>(device_.allocate(size * sizeof(T)));
    const typename D::stream s{};
    device_.clear(data_, size * sizeof(T), s);
    device_.finish(s);
  }
  // Out of line: none of these is hot, and a device in each is a reference count.
  [[gnu::noinline]] buffer(buffer&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  [[gnu::noinline]] buffer& operator=(buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  [[gnu::noinline]] ~buffer() { device_.release(data_); }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] span_on<T, D> span() { return {data_, size_}; }
  [[nodiscard]] span_on<const T, D> span() const { return {data_, size_}; }

  /// Room for at least `size` numbers; what was there is lost when it grows.
  void reserve(std::size_t size) {
    if (size > size_) *this = buffer(device_, size);
  }

 private:
  D device_{};
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What stands there when the stream's work is done, where the host can read it.
template <class Real, Device D>
std::vector<Real> on_host(const D& device, span_on<const Real, D> what, typename D::stream s) {
  std::vector<Real> out(what.size);
  device.copy(out.data(), what.data, what.size * sizeof(Real), s);
  device.finish(s);
  return out;
}

}  // namespace cordee::inline CORDEE_ABI
