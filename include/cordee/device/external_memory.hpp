// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory and what frees it: std::shared_ptr<void> for a single owner, without <memory>
// (docs/compile_time.md).
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Movable. By default no memory.
class external_memory {
 public:
  external_memory(std::nullptr_t = nullptr) {}
  /// free(owner) frees it.
  external_memory(void* data, void* owner, void (*free)(void*))
      : data_(data), owner_(owner), free_(free) {}
  /// What `pointer` owns, a smart pointer.
  template <class Pointer>
    requires requires(const Pointer& p) { static_cast<void*>(p.get()); }
  external_memory(Pointer pointer) : data_(pointer.get()) {
    if (data_ == nullptr) return;
    owner_ = new Pointer(std::move(pointer));
    free_ = destroy<Pointer>;
  }
  external_memory(external_memory&& other) noexcept
      : data_(other.data_), owner_(std::exchange(other.owner_, nullptr)), free_(other.free_) {}
  external_memory& operator=(external_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(owner_, other.owner_);
    std::swap(free_, other.free_);
    return *this;
  }
  [[gnu::cold, gnu::noinline]] ~external_memory() {
    if (owner_ != nullptr) free_(owner_);
  }

  /// Null: none.
  [[nodiscard]] void* get() const { return data_; }

 private:
  template <class Pointer>
  static void destroy(void* owner) {
    delete static_cast<Pointer*>(owner);
  }

  void* data_ = nullptr;
  void* owner_ = nullptr;
  void (*free_)(void*) = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
