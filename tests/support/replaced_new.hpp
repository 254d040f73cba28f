// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Replaces operator new and operator delete of a program by the two functions below, which it
// defines. For one unit of a program.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace support {

/// Memory of at least `bytes`; null, or throws std::bad_alloc, where there is none.
void* replaced_new(std::size_t bytes, std::size_t alignment);
/// Releases memory of `replaced_new`; does nothing for null.
void replaced_delete(void* memory) noexcept;

/// For a program's replaced_new: memory for std::free, or null.
inline void* system_memory(std::size_t bytes, std::size_t alignment) noexcept {
  return std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

// Inlined into a caller, new would be std::aligned_alloc and delete std::free, which GCC then finds
// paired with the other operator, and warns: neither is.
[[gnu::noinline]] inline void* new_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = replaced_new(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] inline void* new_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  try {
    return replaced_new(bytes, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
inline constexpr std::size_t new_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace support

void* operator new(std::size_t bytes) {
  return support::new_or_throw(bytes, support::new_alignment);
}
void* operator new[](std::size_t bytes) {
  return support::new_or_throw(bytes, support::new_alignment);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return support::new_or_null(bytes, support::new_alignment);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return support::new_or_null(bytes, support::new_alignment);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return support::new_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return support::new_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return support::new_or_null(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return support::new_or_null(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { support::replaced_delete(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  support::replaced_delete(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  support::replaced_delete(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  support::replaced_delete(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  support::replaced_delete(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  support::replaced_delete(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  support::replaced_delete(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  support::replaced_delete(memory);
}
