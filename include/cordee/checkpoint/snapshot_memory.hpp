// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory for a snapshot's copies of the planes, kept from one checkpoint to the next.
//
// A copy into new memory is five to ten times slower than one into memory that has been written
// before: the system gives it page by page, zeroed. So it is allocated and written when fit begins.
// For a GPU it is page-locked, so that copies have the link's full bandwidth.
#pragma once

#include <cstddef>
#include <cstring>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/external_memory.hpp>
#include <cordee/device/pinned.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// Host memory that only grows. By default none.
class snapshot_memory {
 public:
  /// Makes it at least `size` bytes, written once by all workers of `workers`; if it grows, what it
  /// held is lost. @throws error if there is none left, with the `remedy`.
  template <class D>
  void reserve(std::size_t size, const D& device, cpu::stream workers,
               const char* remedy =
                   ", which would be written beside training: use .async = "
                   "false, which copies nothing") {
    if (size <= size_) return;
    *this = {};
    try {
      memory_ = allocate(size, device);
    } catch (const error&) {
      throw error(concat("checkpoint: no memory for a copy of ", size, " bytes", remedy));
    }
    size_ = size;
    auto* const bytes = static_cast<std::byte*>(memory_.get());
    device::parallel_chunks(workers, size, grain, [&](std::size_t first, std::size_t last) {
      std::memset(bytes + first, 0, last - first);
    });
  }

  /// Null: none.
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return size_; }

  static constexpr std::size_t grain = std::size_t{1} << 20;  // of a worker's share, in bytes

 private:
  template <class D>
  struct pinned_bytes {
    device::pinned<std::byte, D> memory;
    [[nodiscard]] void* get() const { return memory.span().data(); }
  };
  template <class D>
  static device::external_memory allocate(std::size_t size, const D& device) {
    if constexpr (device::PinnedAllocator<D>) {
      return pinned_bytes<D>{{device, size}};
    } else {
      void* const memory = cpu::stream{}.allocate(size);
      return {memory, memory, [](void* pages) { cpu::stream{}.release(pages); }};
    }
  }

  device::external_memory memory_;
  std::size_t size_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
