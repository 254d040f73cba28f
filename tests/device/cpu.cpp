// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/device/gpu_kernel.hpp>

#include "tests/support/skip.hpp"

using namespace cordee;
using namespace cordee::detail::device;

TEST_CASE("parallel_chunks: 0 .. n-1 exactly once, for any n, grain and number of workers") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    const cpu device(workers);
    for (const std::size_t grain : {1u, 4u, 7u})
      for (const std::size_t n : {0u, 1u, 6u, 7u, 8u, 27u, 28u, 29u, 1000u}) {
        std::vector<int> touched(n);
        detail::device::parallel_chunks(device.make_stream(), n, grain,
                                        [&](std::size_t first, std::size_t last) {
                                          for (std::size_t i = first; i < last; ++i) ++touched[i];
                                        });
        CHECK(std::count(touched.begin(), touched.end(), 1) == static_cast<std::ptrdiff_t>(n));
      }
  }
}

TEST_CASE("parallel_chunks: chunks begin at multiples of the grain and none is empty") {
  for (const int workers : {2, 3, 8}) {
    const cpu device(workers);
    for (const std::size_t n : {1u, 4u, 5u, 63u, 64u, 65u}) {
      std::vector<std::size_t> length(n);
      detail::device::parallel_chunks(
          device.make_stream(), n, 4,
          [&](std::size_t first, std::size_t last) { length[first] = last - first; });
      std::size_t chunks = 0;
      for (std::size_t first = 0; first < n; first += length[first], ++chunks) {
        REQUIRE(first % 4 == 0);
        REQUIRE(length[first] > 0);
      }
      CHECK(chunks <= static_cast<std::size_t>(workers));
    }
  }
}

TEST_CASE(
    "parallel_chunks: without workers, or with one grain of work, the caller runs everything") {
  const cpu device(3);
  const std::thread::id caller = std::this_thread::get_id();
  for (const cpu::stream s : {cpu::stream{}, device.make_stream()}) {
    std::vector<std::thread::id> ids(4);
    detail::device::parallel_chunks(s, 4, 4, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) ids[i] = std::this_thread::get_id();
    });
    for (const std::thread::id id : ids) CHECK(id == caller);
  }
}

TEST_CASE("parallel_dynamic: every task runs once, for any number of tasks and workers") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    const cpu device(workers);
    for (const std::size_t n : {0u, 1u, 2u, 7u, 8u, 9u, 1000u}) {
      std::vector<int> touched(n);
      parallel_dynamic(device.make_stream(), n, [&](std::size_t task) { ++touched[task]; });
      CHECK(std::count(touched.begin(), touched.end(), 1) == static_cast<std::ptrdiff_t>(n));
    }
  }
  int calls = 0;
  parallel_dynamic(cpu::stream{}, 7,
                   [&](std::size_t task) { CHECK(static_cast<int>(task) == calls++); });
  CHECK(calls == 7);
}

TEST_CASE("parallel_dynamic: a delayed worker leaves the remaining tasks to others") {
  const cpu device(3);
  std::atomic<int> others{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  parallel_dynamic(device.make_stream(), 100, [&](std::size_t task) {
    if (task > 0) {
      ++others;
      return;
    }
    while (others < 99 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK(others == 99);
  });
}

TEST_CASE("cpu: memory is aligned for vectors; copy and clear change the given bytes alone") {
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

TEST_CASE("cpu: zero bytes are a null pointer; too many are an error with a remedy") {
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

TEST_CASE("cpu{}: as many workers as the thread's limit, every core without one") {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(cpu{}.workers() == cores);
  {
    const cpu::worker_limit three(3);
    CHECK(cpu{}.workers() == 3);
    {
      const cpu::worker_limit one(1);
      CHECK(cpu{}.workers() == 1);
    }
    CHECK(cpu{}.workers() == 3);
    std::thread([&] { CHECK(cpu{}.workers() == cores); }).join();  // the limit is this thread's
  }
  CHECK(cpu{}.workers() == cores);
  CHECK(cpu(0).workers() == 1);
}

TEST_CASE("cpu: copies of a device share its pool") {
  const cpu device(2), copy = device;
  CHECK(device.make_stream().workers == copy.make_stream().workers);
  CHECK(device.make_stream().workers != cpu(2).make_stream().workers);
}

TEST_CASE("cpu: the threads of a pool end with its last copy, and not before") {
  static std::atomic<int> ended{0};
  struct at_end {
    ~at_end() { ++ended; }
  };
  constexpr int workers = 3;
  std::optional<cpu> first{workers};
  cpu last(1);
  last = *first;
  last = static_cast<const cpu&>(last);
  parallel_dynamic(first->make_stream(), 1, [](std::size_t) {});  // starts the threads
  first.reset();
  std::atomic<int> entered{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  parallel_dynamic(last.make_stream(), workers, [&](std::size_t) {  // a task for each of them
    thread_local const at_end mark;
    (void)&mark;
    ++entered;
    while (entered < workers && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
  });
  CHECK(ended == 0);
  last = cpu(1);
  CHECK(ended == workers - 1);
}

TEST_CASE("cpu: a stream allocates temporary memory") {
  static_assert(StreamAllocator<cpu::stream> && !GpuStream<cpu::stream>);
  const stream_buffer<double, cpu::stream> memory(cpu(1).make_stream(), 100);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % cpu::alignment == 0);
  for (int i = 0; i < 100; ++i) memory.data()[i] = i;  // for AddressSanitizer
  CHECK(memory.data()[99] == 99);
}

#if defined(__linux__)
namespace {
/// Whether madvise(MADV_HUGEPAGE) was called for the page at `address`.
bool is_advised_huge(const void* address) {
  const auto target = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, last = 0;
    char dash = 0;
    std::istringstream fields(line);
    if (fields >> std::hex >> first >> dash >> last && dash == '-')
      inside = first <= target && target < last;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}
}  // namespace

TEST_CASE("cpu: large allocations are advised to use huge pages") {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    return support::skip("this kernel has no transparent huge pages");
  const cpu device(1);
  constexpr std::size_t size = std::size_t{1} << 23;
  void* const memory = device.allocate(size);
  CHECK(is_advised_huge(static_cast<char*>(memory) + size / 2));
  device.release(memory);
}
#endif
