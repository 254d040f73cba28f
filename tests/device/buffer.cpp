// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>

using namespace cordee;

static_assert(!std::is_copy_constructible_v<buffer<float, cpu>> &&
              std::is_nothrow_move_constructible_v<buffer<float, cpu>> &&
              std::is_nothrow_move_assignable_v<buffer<float, cpu>>);

namespace {
// A CPU whose allocations are not zero.
struct dirty_cpu : cpu {
  using cpu::cpu;
  void* allocate(std::size_t size) const {
    void* memory = cpu::allocate(size);
    if (size != 0) std::memset(memory, 0xff, size);
    return memory;
  }
};
struct counting_cpu : cpu {
  static inline int chosen = 0;  // by default, as a GPU would be
  counting_cpu() { ++chosen; }
};
}  // namespace

TEST_CASE("buffer: an empty buffer chooses no device") {
  buffer<float, counting_cpu> empty, moved(std::move(empty));
  CHECK(counting_cpu::chosen == 0);
  const counting_cpu here;
  moved = {here, 3};
  CHECK(counting_cpu::chosen == 1);
}

TEST_CASE("buffer: zero initially, whatever the allocation contained") {
  const dirty_cpu device(1);
  for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 5000u}) {
    const buffer<double, dirty_cpu> b(device, n);
    REQUIRE(b.size() == n);
    REQUIRE(b.span().size == n);
    for (const double x : b.span()) REQUIRE(x == 0);
  }
}

TEST_CASE("buffer: a move transfers the memory and leaves an empty buffer") {
  const cpu device(1);
  buffer<int, cpu> a(device, 3);
  a.span()[2] = 7;
  const int* address = a.span().data;
  buffer<int, cpu> b(std::move(a));
  CHECK((b.span().data == address && b.span()[2] == 7 && b.size() == 3));
  CHECK((a.size() == 0 && a.span().data == nullptr));  // NOLINT: the moved-from state is under test
  buffer<int, cpu> c;
  c = std::move(b);
  CHECK((c.span().data == address && b.size() == 0));  // NOLINT
}

TEST_CASE("buffer: reserve grows, never shrinks, and keeps contents while the size suffices") {
  const cpu device(1);
  buffer<float, cpu> b(device, 4);
  b.span()[0] = 5;
  b.reserve(3);
  b.reserve(4);
  CHECK((b.size() == 4 && b.span()[0] == 5));
  b.reserve(9);
  CHECK((b.size() == 9 && b.span()[0] == 0 && b.span()[8] == 0));
}

TEST_CASE("buffer: a size in bytes that overflows is a usage_error") {
  const cpu device(1);
  CHECK_THROWS_AS((buffer<double, cpu>(device, std::numeric_limits<std::size_t>::max() / 4)),
                  usage_error);
}
