// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Over the counting double of the CUDA runtime: no GPU is needed.
#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>

#include "tests/support/cuda_on_host.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("cuda_stream_pool: a closed stream is made again, of the same priority alone") {
  const gpu device;
  const auto a = device.make_stream();
  const int normal = host_cuda_counts().priorities.back();
  device.close_stream(a);
  const auto exchange = device.make_high_priority_stream();
  const int high = host_cuda_counts().priorities.back();
  CHECK(high < normal);  // CUDA counts downwards
  CHECK(exchange.handle != a.handle);
  CHECK(device.make_stream().handle == a.handle);
  const std::size_t created = host_cuda_counts().priorities.size();
  device.close_stream(exchange);
  CHECK(device.make_high_priority_stream().handle == exchange.handle);
  CHECK(host_cuda_counts().priorities.size() == created);
}

TEST_CASE("cuda_stream_pool: each stream has its own temporary memory, released with the device") {
  const std::size_t used = host_cuda_counts().used;
  {
    const gpu device;
    const auto a = device.make_stream(), b = device.make_stream();
    void *const x = a.allocate(100), *const y = b.allocate(100);
    CHECK(x != y);
    a.release(x);
    b.release(y);
    const std::size_t calls = host_cuda_counts().pool_calls;
    CHECK(a.allocate(100) != b.allocate(100));
    CHECK(host_cuda_counts().pool_calls == calls);
    CHECK(host_cuda_counts().used > used);
  }
  CHECK(host_cuda_counts().used == used);
}

TEST_CASE("cuda_stream_pool: a stream's counters stay where they are, and are its own") {
  const std::size_t used = host_cuda_counts().used;
  {
    const gpu device;
    const auto a = device.make_stream(), b = device.make_stream();
    CHECK(a.counters(0) == nullptr);
    unsigned* const few = a.counters(10);
    CHECK(b.counters(10) != few);
    CHECK(a.counters(20) == few);
    const std::size_t clears = host_cuda_counts().clears;
    unsigned* const many = a.counters(100'000);
    CHECK(many != few);
    CHECK(host_cuda_counts().clears == clears + 1);
    CHECK(a.counters(10) == many);
    few[9] = many[99'999] = 0;  // both are there
    const auto captured = device.capture(a, [&] {
      CHECK(a.counters(100'000) == many);
      CHECK_THROWS_AS((void)a.counters(200'000), usage_error);
    });
  }
  CHECK(host_cuda_counts().used == used);
}

TEST_CASE("cuda_stream_pool: a stream of the program's own has no counters, and is told so") {
  const gpu::stream own;  // CUDA's default stream
  const char* const sentence = "has no counters; pass one of make_stream";
  CHECK_THROWS_WITH_AS((void)own.counters(1), doctest::Contains(sentence), usage_error);
  CHECK_THROWS_WITH_AS((void)own.counters(0), doctest::Contains(sentence), usage_error);
}
