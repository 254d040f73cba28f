// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A fixed number of objects with a single owner. Not a std::vector, of which every program would
// compile a dozen functions for each type (docs/compile_time.md).
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// Movable; empty by default. T may be one that is neither copied nor moved.
template <class T>
class owned_array {
 public:
  owned_array() = default;
  /// `size` objects, value-initialized.
  explicit owned_array(std::size_t size) : first_(new T[size]()), size_(size) {}
  owned_array(owned_array&& other) noexcept { *this = std::move(other); }
  owned_array& operator=(owned_array&& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~owned_array() { delete[] first_; }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::size_t k) { return first_[k]; }
  [[nodiscard]] const T& operator[](std::size_t k) const { return first_[k]; }
  [[nodiscard]] T* begin() { return first_; }
  [[nodiscard]] T* end() { return first_ + size_; }
  [[nodiscard]] const T* begin() const { return first_; }
  [[nodiscard]] const T* end() const { return first_ + size_; }

 private:
  T* first_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
