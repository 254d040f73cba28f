// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory through which an MPI without support of CUDA sends and receives that of a GPU.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <new>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Page-locks host memory, so that copies to and from it neither are staged again nor block.
template <class S>
concept PinningStream = requires(std::size_t size, void* memory) {
  { S::pin(size) } -> std::same_as<void*>;  // throws cordee::error
  { S::unpin(memory) } noexcept;
};

/// Host memory that grows and never shrinks; page-locked where the stream's type can.
template <class S>
class host_staging {
 public:
  host_staging() = default;
  host_staging(const host_staging&) = delete;
  host_staging& operator=(const host_staging&) = delete;
  ~host_staging() { release(); }

  /// The calling thread's: only its first transfers allocate.
  static host_staging& of_thread() {
    thread_local host_staging staging;
    return staging;
  }
  /// At least so many bytes, of undefined content.
  [[nodiscard]] std::byte* reserve(std::size_t size) {
    if (size <= capacity_) return static_cast<std::byte*>(memory_);
    const std::size_t grown = std::max(size, 2 * capacity_);
    release();
    if constexpr (PinningStream<S>)
      memory_ = S::pin(grown);
    else
      memory_ = ::operator new(grown);
    capacity_ = grown;
    return static_cast<std::byte*>(memory_);
  }

 private:
  void release() noexcept {
    if constexpr (PinningStream<S>)
      S::unpin(memory_);
    else
      ::operator delete(memory_);
    memory_ = nullptr;
    capacity_ = 0;
  }

  void* memory_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
