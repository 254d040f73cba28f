// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The heap of the checked program: one range of addresses with a shadow for every byte, so that an
// access outside an allocation is found. operator new allocates from it, with unallocated bytes
// around every allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace checked {

/// What is known of a byte.
enum byte_state : std::uint8_t {
  allocated = 1,
  defined = 2,  // it has been written; memory of the host counts as written
  shared = 4,   // of a thread block
  pending = 8   // the target of an asynchronous copy that has not been waited for
};

/// Who last accessed a byte, for the detection of races. An interval is the time between two
/// barriers of one thread block; intervals are numbered over all launches.
struct access_history {
  static constexpr std::uint16_t many_threads = 0xffff;
  std::uint32_t writer_interval = 0, reader_interval = 0;
  std::uint16_t writer = 0, reader = 0;  // threads
  bool many_blocks = false;              // readers of the reader's launch
};

class heap {
 public:
  static constexpr std::size_t size = std::size_t{1} << 30;
  static constexpr std::size_t guard = 64;  // unallocated bytes behind an allocation, or more

  static bool contains(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base) < size;
  }
  static std::uint8_t* state_of(const void* p) { return states + offset_of(p); }
  static access_history* history_of(const void* p) { return histories + offset_of(p); }
  static std::size_t offset_of(const void* p) {
    return static_cast<std::size_t>(static_cast<const std::byte*>(p) - base);
  }

  static void* allocate(std::size_t bytes, std::size_t alignment);
  static void release(void* memory);
  static void add_state(const void* p, std::size_t bytes, unsigned bits);
  static void set_state(const void* p, std::size_t bytes, unsigned bits);
  /// Does nothing outside the heap.
  static void define(const void* p, std::size_t bytes);

 private:
  static constinit std::byte* base;
  static constinit std::uint8_t* states;
  static constinit access_history* histories;
};

}  // namespace checked
