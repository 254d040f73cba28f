// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An object that its copies share. Not std::shared_ptr: <memory> includes <ostream>, and every
// program would compile its reference counts (docs/compile_time.md).
#pragma once

#include <utility>

#include <cordee/core/atomic.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// Never null. The last copy destroys the object.
template <class T>
class counted_ptr {
 public:
  template <class... Arguments>
  [[gnu::cold, gnu::noinline]] static counted_ptr make(const Arguments&... arguments) {
    return counted_ptr(new counted{T(arguments...)});
  }
  [[gnu::cold, gnu::noinline]] counted_ptr(const counted_ptr& other) : object_(other.object_) {
    object_->owners.fetch_add(1, core::memory_order::relaxed);
  }
  [[gnu::cold]] counted_ptr& operator=(counted_ptr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  [[gnu::cold, gnu::noinline]] ~counted_ptr() {
    if (object_->owners.fetch_sub(1, core::memory_order::acq_rel) == 1) delete object_;
  }

  [[nodiscard]] T* get() const { return &object_->value; }
  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }

 private:
  struct counted {
    T value;
    core::atomic<int> owners{1};
  };
  explicit counted_ptr(counted* object) : object_(object) {}

  counted* object_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
