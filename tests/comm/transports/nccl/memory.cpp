// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/memory.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

nccl_double::memory_counts counts() { return nccl_double::registrable_memory::instance().counts(); }
void reset() { nccl_double::registrable_memory::instance().reset(); }

/// So much memory on the GPU for the rest of the test case.
struct small_gpu {
  small_gpu(std::size_t free, std::size_t pooled) {
    nccl_double::available = free;
    nccl_double::kept_by_pool = pooled;
  }
  small_gpu(const small_gpu&) = delete;
  ~small_gpu() {
    nccl_double::available = std::size_t{1} << 40;
    nccl_double::kept_by_pool = 0;
    nccl_double::last_error = "the double's last error";
  }
};

}  // namespace

TEST_CASE("nccl_memory: is freed by release, or at the end, and once") {
  reset();
  {
    nccl_memory memory;
    void* const a = memory.allocate(nullptr, 100);
    void* const b = memory.allocate(nullptr, 1);
    CHECK(a != b);
    memory.release(a, false);
    CHECK(counts() == nccl_double::memory_counts{.allocated = 2, .freed = 1});
  }
  CHECK(counts() == nccl_double::memory_counts{.allocated = 2, .freed = 2});
}

TEST_CASE("nccl_memory: is freed when the GPU is idle") {
  for (const bool by_release : {true, false}) {
    CAPTURE(by_release);
    reset();
    nccl_double::stream s;
    {
      nccl_memory memory;
      void* const block = memory.allocate(nullptr, 100);
      s.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
      if (by_release) memory.release(block, false);
    }
    CHECK(counts() == nccl_double::memory_counts{.allocated = 1, .freed = 1});
  }
}

TEST_CASE("nccl_memory: where the GPU cannot be awaited it is kept to the end") {
  reset();
  {
    nccl_memory memory;
    void* const block = memory.allocate(nullptr, 100);
    nccl_double::captured_elsewhere = true;
    memory.release(block, false);
    nccl_double::captured_elsewhere = false;
    CHECK(counts().freed == 0);
  }
  CHECK(counts().freed == 1);
}

TEST_CASE("nccl_memory: what is kept is for the next of its size, when the GPU is idle") {
  reset();
  {
    nccl_memory memory;
    std::atomic<bool> is_idle{false};
    nccl_double::stream s;
    void* const block = memory.allocate(nullptr, 100);
    s.enqueue([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      is_idle = true;
    });
    memory.release(block, true);
    CHECK(is_idle);
    void* const other = memory.allocate(nullptr, 99);
    CHECK(other != block);
    CHECK(memory.allocate(nullptr, 100) == block);
    CHECK(memory.allocate(nullptr, 100) != block);  // is in use
    CHECK(counts() == nccl_double::memory_counts{.allocated = 3});
    nccl_double::captured_elsewhere = true;
    memory.release(other, true);
    nccl_double::captured_elsewhere = false;
    CHECK(memory.allocate(nullptr, 99) != other);  // may be in use by the GPU
  }
  CHECK(counts() == nccl_double::memory_counts{.allocated = 4, .freed = 4});
}

TEST_CASE("nccl_memory: what the pool keeps is returned where it is needed") {
  const small_gpu limited(1'000, 5'000);
  const int trims = nccl_double::trims;
  nccl_memory memory;
  (void)memory.allocate(nullptr, 900);
  CHECK(nccl_double::trims == trims);
  (void)memory.allocate(nullptr, 4'000);
  CHECK(nccl_double::trims == trims + 1);
}

TEST_CASE("nccl_memory: where NCCL's text is about another error, free memory decides") {
  const small_gpu limited(1'000, 5'000);
  const int trims = nccl_double::trims;
  nccl_memory memory;
  nccl_double::failing_allocation = ncclUnhandledCudaError;
  nccl_double::last_error = "Cuda failure 1 'invalid argument'";
  CHECK(memory.allocate(nullptr, 4'000) != nullptr);
  CHECK(nccl_double::trims == trims + 1);
}

TEST_CASE("nccl_memory: out of memory names call, sizes and remedy; other errors name NCCL's") {
  const small_gpu limited(1'000, 5'000);
  nccl_memory memory;
  reset();
  CHECK_THROWS_AS((void)memory.allocate(nullptr, 7'000), detail::core::out_of_memory);
  const std::string message = error_message([&] { (void)memory.allocate(nullptr, 7'000); });
  CHECK(contains(message, "ncclMemAlloc of 7,000 bytes, with 6,000 of the GPU's "));
  CHECK(contains(message, "bytes free: out of memory; use a smaller batch per rank"));
  nccl_double::failing_allocation = ncclSystemError;
  CHECK(contains(error_message([&] { (void)memory.allocate(nullptr, 100); }),
                 "nccl: ncclMemAlloc of 100 bytes: the double's error"));
  nccl_double::last_error = "Cuda failure 1 'invalid argument'";  // and there is memory enough
  nccl_double::failing_allocation = ncclUnhandledCudaError;
  CHECK(contains(error_message([&] { (void)memory.allocate(nullptr, 100); }),
                 "nccl: ncclMemAlloc of 100 bytes: the double's error"));
  CHECK(counts() == nccl_double::memory_counts{});
  (void)memory.allocate(nullptr, 100);  // and goes on
}
