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
// A CPU whose memory has been used before.
struct used : cpu {
  using cpu::cpu;
  void* allocate(std::size_t size) const {
    void* memory = cpu::allocate(size);
    if (size != 0) std::memset(memory, 0xff, size);
    return memory;
  }
};
}  // namespace

TEST_CASE("buffer: zero at the start, whatever stood in that memory before") {
  const used device(1);
  for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 5000u}) {
    const buffer<double, used> b(device, n);
    REQUIRE(b.size() == n);
    REQUIRE(b.span().size == n);
    for (const double x : b.span()) REQUIRE(x == 0);
  }
}

TEST_CASE("buffer: moving hands the memory on and leaves nothing behind") {
  const cpu device(1);
  buffer<int, cpu> a(device, 3);
  a.span()[2] = 7;
  const int* where = a.span().data;
  buffer<int, cpu> b(std::move(a));
  CHECK((b.span().data == where && b.span()[2] == 7 && b.size() == 3));
  CHECK((a.size() == 0 && a.span().data == nullptr));  // NOLINT: what a move leaves is the point
  buffer<int, cpu> c;
  c = std::move(b);
  CHECK((c.span().data == where && b.size() == 0));  // NOLINT
}

TEST_CASE("buffer: reserve grows, never shrinks, and moves nothing when there is room") {
  const cpu device(1);
  buffer<float, cpu> b(device, 4);
  b.span()[0] = 5;
  b.reserve(3);
  b.reserve(4);
  CHECK((b.size() == 4 && b.span()[0] == 5));
  b.reserve(9);
  CHECK((b.size() == 9 && b.span()[0] == 0 && b.span()[8] == 0));
}

TEST_CASE("buffer: a size whose bytes cannot be counted is the caller's mistake") {
  const cpu device(1);
  CHECK_THROWS_AS((buffer<double, cpu>(device, std::numeric_limits<std::size_t>::max() / 4)),
                  misuse);
}
