// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/error.hpp>
#include <cordee/device/stack_arena.hpp>

using cordee::detail::device::stack_arena;

namespace {

struct heap {
  std::map<void*, std::size_t> blocks;
  std::size_t calls = 0, limit = SIZE_MAX;
  bool may_grow = true;

  void* allocate(std::size_t size) {
    ++calls;
    void* const p = std::aligned_alloc(256, size);
    blocks[p] = size;
    return p;
  }
};
struct memory_of_heap {
  heap* on;
  [[nodiscard]] bool may_grow() const noexcept { return on->may_grow; }
  [[nodiscard]] void* allocate(std::size_t size) const {
    if (size > on->limit) throw cordee::error("no memory");
    return on->allocate(size);
  }
  [[nodiscard]] void* try_allocate(std::size_t size) const noexcept {
    return size > on->limit ? nullptr : on->allocate(size);
  }
  void release(void* p) const noexcept {
    ++on->calls;
    on->blocks.erase(p);
    std::free(p);
  }
};
using arena = stack_arena<memory_of_heap>;

/// Three temporaries, two of them at once, as a step takes them.
void step(arena& a, std::size_t scale) {
  void* const x = a.allocate(1000 * scale);
  void* const y = a.allocate(300 * scale);
  a.release(y);
  a.release(x);
  a.release(a.allocate(500 * scale));
}

}  // namespace

TEST_CASE("stack_arena: after the first step nothing is allocated") {
  heap h;
  arena a(memory_of_heap{&h});
  step(a, 1);
  CHECK(h.calls > 0);
  CHECK(a.capacity() == 1024 + 512);  // in units of 256 bytes
  const std::size_t calls = h.calls;
  for (int k = 0; k < 5; ++k) step(a, 1);
  CHECK(h.calls == calls);
  step(a, 3);  // an evaluation of larger batches
  const std::size_t larger = h.calls;
  CHECK(larger > calls);
  step(a, 1);
  step(a, 3);
  CHECK(h.calls == larger);
}

TEST_CASE(
    "stack_arena: memory in use is aligned, disjoint and not moved, in any order of release") {
  std::mt19937 random(1);
  heap h;
  {
    arena a(memory_of_heap{&h});
    struct use {
      std::uint8_t* data;
      std::size_t size;
      std::uint8_t value;
    };
    std::vector<use> uses;
    for (int k = 0; k < 4000; ++k) {
      if (uses.size() < 6 && random() % 2 == 0) {
        const std::size_t size = 1 + random() % 2000;
        auto* const p = static_cast<std::uint8_t*>(a.allocate(size));
        REQUIRE(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
        uses.push_back({p, size, static_cast<std::uint8_t>(k)});
        std::fill_n(p, size, uses.back().value);
      } else if (!uses.empty()) {
        const auto at = uses.begin() + static_cast<std::ptrdiff_t>(random() % uses.size());
        for (std::size_t i = 0; i < at->size; ++i) REQUIRE(at->data[i] == at->value);
        a.release(at->data);
        uses.erase(at);
      }
    }
    for (const use& u : uses) a.release(u.data);
  }
  CHECK(h.blocks.empty());
}

TEST_CASE("stack_arena: during a capture the block stays, so that graphs keep their addresses") {
  heap h;
  arena a(memory_of_heap{&h});
  step(a, 1);
  const std::size_t capacity = a.capacity();
  h.may_grow = false;
  step(a, 4);
  CHECK(a.capacity() == capacity);
  h.may_grow = true;
  step(a, 1);
  CHECK(a.capacity() > capacity);
}

TEST_CASE("stack_arena: without memory for a larger block it goes on with single allocations") {
  heap h;
  arena a(memory_of_heap{&h});
  h.limit = 4096;
  step(a, 4);
  CHECK(a.capacity() < 1024 * 5);
  h.limit = 100;
  CHECK_THROWS_AS(step(a, 8), cordee::error);
  CHECK(a.allocate(0) == nullptr);
  a.release(nullptr);
}
