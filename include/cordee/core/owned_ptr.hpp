// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An object with a single owner. Not std::unique_ptr: since C++20 <memory> includes <ostream>
// (docs/compile_time.md).
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

struct deletes {
  void operator()(const auto* object) const { delete object; }
};
struct deletes_array {
  void operator()(const auto* first) const { delete[] first; }
};

/// Movable; null by default. Close{}(object) ends the object.
template <class T, class Close = deletes>
class owned_ptr {
 public:
  owned_ptr() = default;
  explicit owned_ptr(T* object) : object_(object) {}
  template <class... Arguments>
  [[nodiscard]] static owned_ptr make(Arguments&&... arguments) {
    return owned_ptr(new T(std::forward<Arguments>(arguments)...));
  }
  owned_ptr(owned_ptr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  owned_ptr& operator=(owned_ptr&& other) noexcept {
    reset(std::exchange(other.object_, nullptr));
    return *this;
  }
  ~owned_ptr() { reset(); }

  /// Ends what it owned.
  void reset(T* object = nullptr) {
    if (T* const before = std::exchange(object_, object)) Close{}(before);
  }

  [[nodiscard]] T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

/// n numbers without values.
template <class Number>
owned_ptr<Number, deletes_array> uninitialized(std::size_t n) {
  return owned_ptr<Number, deletes_array>(new Number[n]);
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
