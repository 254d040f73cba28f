// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/checked/memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include <sys/mman.h>

#include "tests/support/replaced_new.hpp"

namespace checked {

constinit std::byte* heap::base = nullptr;
constinit std::uint8_t* heap::states = nullptr;
constinit access_history* heap::histories = nullptr;

namespace {

/// Address space; pages become memory when they are touched.
template <class T>
T* reserve(std::size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<T*>(memory);
}

// A chunk is a power of two: the guard, the allocation, and another guard. The sizes are kept
// apart, where no faulty kernel overwrites them.
constexpr std::size_t smallest_chunk = 256;
struct chunk {
  std::size_t bytes, front;
  chunk* next;  // of the free ones of this size
};
constinit std::mutex mutex;
constinit chunk* chunks = nullptr;
constinit std::size_t used = 0;
constinit chunk* free_chunks[64] = {};

}  // namespace

void* heap::allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t front = std::max(alignment, guard);
  const std::size_t full = std::bit_ceil(std::max(bytes + front + guard, smallest_chunk));
  const std::scoped_lock lock(mutex);
  if (base == nullptr) {
    base = reserve<std::byte>(size);
    states = reserve<std::uint8_t>(size);
    histories = reserve<access_history>(size);
    chunks = reserve<chunk>(size / smallest_chunk);
  }
  chunk*& list = free_chunks[std::countr_zero(full)];
  chunk* found = list;
  if (found != nullptr) {
    list = found->next;
  } else {
    if (used + full > size) throw std::bad_alloc();
    found = chunks + used / smallest_chunk;
    used += full;
  }
  found->bytes = bytes;
  found->front = front;
  std::byte* const memory =
      base + static_cast<std::size_t>(found - chunks) * smallest_chunk + front;
  set_state(memory, bytes, allocated | defined);
  return memory;
}
void heap::release(void* memory) {
  if (memory == nullptr) return;
  const std::scoped_lock lock(mutex);
  // The front guard is a multiple of 64 up to 256 or the alignment: the chunk's start is the first
  // entry at or before the address whose allocation begins there.
  std::size_t entry = (offset_of(memory) - 1) / smallest_chunk;
  while (base + entry * smallest_chunk + chunks[entry].front != memory) --entry;
  chunk& freed = chunks[entry];
  set_state(memory, freed.bytes, 0);
  chunk*& list = free_chunks[std::countr_zero(
      std::bit_ceil(std::max(freed.bytes + freed.front + guard, smallest_chunk)))];
  freed.next = list;
  freed.front = 0;  // no allocation
  list = &freed;
}
void heap::set_state(const void* p, std::size_t bytes, unsigned bits) {
  std::memset(state_of(p), static_cast<int>(bits), bytes);
}
void heap::add_state(const void* p, std::size_t bytes, unsigned bits) {
  for (std::uint8_t *s = state_of(p), *end = s + bytes; s < end; ++s)
    *s = static_cast<std::uint8_t>(*s | bits);
}
void heap::define(const void* p, std::size_t bytes) {
  if (contains(p)) add_state(p, bytes, defined);
}

}  // namespace checked

void* support::replaced_new(std::size_t bytes, std::size_t alignment) {
  return checked::heap::allocate(bytes, alignment);
}
void support::replaced_delete(void* memory) noexcept { checked::heap::release(memory); }
