// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Over the counting double of the CUDA runtime: no GPU is needed.
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>
#include <cordee/device/cuda_memory.hpp>

#include "tests/support/cuda_on_host.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A GPU with so much memory for the rest of the test case.
struct small_gpu {
  explicit small_gpu(std::size_t bytes) {
    auto& state = host_cuda_counts();
    (void)cudaMemPoolTrimTo(nullptr, 0);
    state.memory = state.used + bytes;
  }
  ~small_gpu() { host_cuda_counts().memory = std::size_t{1} << 40; }
};

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cuda_memory: memory that the pool keeps is returned where an allocation needs it") {
  const gpu device;
  const small_gpu limited(1000);
  const auto s = device.make_stream();
  void* const temporary = detail::device::cuda_stream_memory{s.handle}.allocate(800);
  detail::device::cuda_stream_memory{s.handle}.release(temporary);
  REQUIRE(host_cuda_counts().pooled == 800);
  const std::size_t trims = host_cuda_counts().trims, waits = host_cuda_counts().device_waits;
  void* const memory = device.allocate(900);
  CHECK(memory != nullptr);
  CHECK(host_cuda_counts().trims == trims + 1);
  CHECK(host_cuda_counts().device_waits == waits + 1);
  device.release(memory);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  device.close_stream(s);
}

TEST_CASE("cuda_memory: an error says what was asked for, what is free and the remedy") {
  const gpu device;
  const small_gpu limited(1'000'000);
  const auto s = device.make_stream();
  const std::string direct = message_of([&] { (void)device.allocate(5'000'000); }),
                    temporary = message_of([&] { (void)s.allocate(5'000'000); });
  CHECK(direct.find("cudaMalloc of 5,000,000 bytes, with 1,000,000 of the GPU's ") !=
        std::string::npos);
  CHECK(temporary.find("cudaMallocAsync of 5,000,") != std::string::npos);
  for (const std::string& text : {direct, temporary}) {
    CHECK(text.find("bytes free: out of memory") != std::string::npos);
    CHECK(text.find("use a smaller batch per rank") != std::string::npos);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  device.close_stream(s);
}

TEST_CASE("cuda_memory: during a capture nothing is trimmed, and the stream's block stays") {
  const gpu device;
  const auto s = device.make_stream();
  s.release(s.allocate(1000));
  const std::size_t bytes = s.temporary_bytes(), trims = host_cuda_counts().trims;
  CHECK(bytes >= 1000);
  (void)device.capture(s, [&] { s.release(s.allocate(2000)); });
  CHECK(s.temporary_bytes() == bytes);
  {
    const small_gpu limited(1000);
    CHECK_THROWS_AS((void)device.capture(s, [&] { s.release(s.allocate(50'000)); }), error);
  }
  CHECK(host_cuda_counts().trims == trims + 1);  // by small_gpu
  device.close_stream(s);
}

TEST_CASE("cuda_memory: out of memory is said while another thread captures a graph") {
  const gpu device;
  const auto s = device.make_stream();
  std::string message;
  (void)device.capture(s, [&] {
    std::thread([&] {
      const small_gpu limited(1'000'000);
      message = message_of([&] { (void)device.allocate(5'000'000); });
      CHECK(cudaPeekAtLastError() == cudaSuccess);
    }).join();
  });
  CHECK(message.find("cudaMalloc of 5,000,000 bytes") != std::string::npos);
  CHECK(message.find("out of memory") != std::string::npos);
  device.close_stream(s);
}
