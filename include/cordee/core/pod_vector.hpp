// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A vector of trivially copyable values that grows by one function for all types. std::vector's
// growth is compiled for each type (docs/compile_time.md).
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// Bytes with the alignment of `operator new`.
class growing_bytes {
 public:
  growing_bytes() = default;
  growing_bytes(growing_bytes&& other) noexcept { *this = std::move(other); }
  [[gnu::noinline]] growing_bytes& operator=(growing_bytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~growing_bytes() { ::operator delete(data_); }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// New bytes are zero; memory moves only when the capacity is exceeded.
  [[gnu::noinline]] void resize(std::size_t size) {
    if (size > capacity_) {
      const std::size_t capacity = size < 2 * capacity_ ? 2 * capacity_ : size;
      void* const data = ::operator new(capacity);
      if (size_ > 0) std::memcpy(data, data_, size_);
      ::operator delete(data_);
      data_ = data;
      capacity_ = capacity;
    }
    if (size > size_) std::memset(static_cast<std::byte*>(data_) + size_, 0, size - size_);
    size_ = size;
  }
  /// Requires that `value` is not one of these bytes.
  [[gnu::noinline]] void append(const void* value, std::size_t size) {
    resize(size_ + size);
    std::memcpy(static_cast<std::byte*>(data_) + size_ - size, value, size);
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

/// Movable, not copyable. New values are zero in every byte.
template <class T>
class pod_vector {
 public:
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / sizeof(T); }
  [[nodiscard]] T* data() { return static_cast<T*>(bytes_.data()); }
  [[nodiscard]] const T* data() const { return static_cast<const T*>(bytes_.data()); }
  [[nodiscard]] std::span<T> span() { return {data(), size()}; }
  [[nodiscard]] std::span<const T> span() const { return {data(), size()}; }

  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size(); }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size(); }
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] T& back() { return data()[size() - 1]; }
  [[nodiscard]] const T& back() const { return data()[size() - 1]; }

  void clear() { resize(0); }
  void resize(std::size_t size) { bytes_.resize(size * sizeof(T)); }
  void push_back(T value) {  // by value: it may be an element, which growth moves
    bytes_.append(&value, sizeof value);
  }
  void pop_back() { resize(size() - 1); }

 private:
  // Asserted here, not by a constraint, so that T may be incomplete where a member is declared.
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  growing_bytes bytes_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
