// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/device/grid.hpp>

using namespace cordee;

TEST_CASE("parallel covers 0 .. n-1 exactly once, for any n, grain and number of workers") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    const cpu device(workers);
    for (const std::size_t grain : {1u, 4u, 7u})
      for (const std::size_t n : {0u, 1u, 6u, 7u, 8u, 27u, 28u, 29u, 1000u}) {
        std::vector<int> touched(n);
        parallel(device.open(), n, grain, [&](std::size_t first, std::size_t last) {
          for (std::size_t i = first; i < last; ++i) ++touched[i];
        });
        CHECK(std::count(touched.begin(), touched.end(), 1) == static_cast<std::ptrdiff_t>(n));
      }
  }
}

TEST_CASE("parallel: parts begin at multiples of the grain and none is empty") {
  for (const int workers : {2, 3, 8}) {
    const cpu device(workers);
    for (const std::size_t n : {1u, 4u, 5u, 63u, 64u, 65u}) {
      std::vector<std::size_t> length(n);
      parallel(device.open(), n, 4,
               [&](std::size_t first, std::size_t last) { length[first] = last - first; });
      std::size_t parts = 0;
      for (std::size_t first = 0; first < n; first += length[first], ++parts) {
        REQUIRE(first % 4 == 0);
        REQUIRE(length[first] > 0);
      }
      CHECK(parts <= static_cast<std::size_t>(workers));
    }
  }
}

TEST_CASE("parallel: without workers, or with one grain of work, the caller does it all") {
  const cpu device(3);
  const std::thread::id caller = std::this_thread::get_id();
  for (const cpu::stream s : {cpu::stream{}, device.open()}) {
    std::vector<std::thread::id> who(4);
    parallel(s, 4, 4, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) who[i] = std::this_thread::get_id();
    });
    for (const std::thread::id id : who) CHECK(id == caller);
  }
}

TEST_CASE("each_task: every task is done once, for any number of them and of workers") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    const cpu device(workers);
    for (const std::size_t n : {0u, 1u, 2u, 7u, 8u, 9u, 1000u}) {
      std::vector<int> touched(n);
      each_task(device.open(), n, [&](std::size_t task) { ++touched[task]; });
      CHECK(std::count(touched.begin(), touched.end(), 1) == static_cast<std::ptrdiff_t>(n));
    }
  }
  int calls = 0;
  each_task(cpu::stream{}, 7, [&](std::size_t task) { CHECK(static_cast<int>(task) == calls++); });
  CHECK(calls == 7);
}

TEST_CASE("each_task: who is held up leaves the rest to others") {
  const cpu device(3);
  std::atomic<int> others{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  each_task(device.open(), 100, [&](std::size_t task) {
    if (task > 0) {
      ++others;
      return;
    }
    while (others < 99 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK(others == 99);
  });
}

TEST_CASE("cpu: memory is aligned for vectors, and copies and clears its bytes") {
  const cpu device(1);
  auto* a = static_cast<unsigned char*>(device.allocate(300));
  REQUIRE(reinterpret_cast<std::uintptr_t>(a) % cpu::alignment == 0);
  for (int i = 0; i < 300; ++i) a[i] = static_cast<unsigned char>(i);
  device.copy(a + 100, a, 50, {});
  CHECK((a[99] == 99 && a[100] == 0 && a[149] == 49 && a[150] == 150));
  device.clear(a + 1, 2, {});
  CHECK((a[0] == 0 && a[1] == 0 && a[2] == 0 && a[3] == 3));
  device.release(a);
}

TEST_CASE("cpu: nothing is nothing, and too much is an error with a remedy") {
  const cpu device(1);
  CHECK(device.allocate(0) == nullptr);
  device.release(nullptr);
  device.copy(nullptr, nullptr, 0, {});
  device.clear(nullptr, 0, {});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which abort instead
  CHECK_THROWS_WITH_AS(device.release(device.allocate(std::size_t{1} << 62)),
                       doctest::Contains("use a smaller batch per rank"), error);
#endif
}

TEST_CASE("cpu{}: as many workers as this thread is entitled to, every core if nobody says") {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(cpu{}.workers() == cores);
  {
    const cpu::entitlement three(3);
    CHECK(cpu{}.workers() == 3);
    {
      const cpu::entitlement one(1);
      CHECK(cpu{}.workers() == 1);
    }
    CHECK(cpu{}.workers() == 3);
    std::thread([&] { CHECK(cpu{}.workers() == cores); }).join();  // this thread's, not another's
  }
  CHECK(cpu{}.workers() == cores);
  CHECK(cpu(0).workers() == 1);
}

TEST_CASE("cpu: copies of a device share its pool") {
  const cpu device(2), copy = device;
  CHECK(device.open().workers == copy.open().workers);
  CHECK(device.open().workers != cpu(2).open().workers);
}

TEST_CASE("cpu: a stream lends memory, which comes back") {
  static_assert(Lends<cpu::stream> && !GridStream<cpu::stream>);
  const lent<double, cpu::stream> room(cpu(1).open(), 100);
  CHECK(reinterpret_cast<std::uintptr_t>(room.data()) % cpu::alignment == 0);
  for (int i = 0; i < 100; ++i) room.data()[i] = i;  // AddressSanitizer looks on
  CHECK(room.data()[99] == 99);
}

#if defined(__linux__)
namespace {
/// Whether the page at `address` was asked to be a large one.
bool asked_for_large_page(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, last = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> first >> dash >> last && dash == '-')
      inside = first <= wanted && wanted < last;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}
}  // namespace

TEST_CASE("cpu: memory for activations asks for large pages") {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) return;
  const cpu device(1);
  constexpr std::size_t size = std::size_t{1} << 23;
  void* const memory = device.allocate(size);
  CHECK(asked_for_large_page(static_cast<char*>(memory) + size / 2));
  device.release(memory);
}
#endif
