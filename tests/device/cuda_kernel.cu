// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Over the counting double of the CUDA runtime: no GPU is needed.
#include <string>

#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>

#include "tests/support/cuda_on_host.hpp"

using namespace cordee;
using namespace support;

namespace {

/// It needs the opt-in if it declares a byte of shared memory itself, as `sum` and `is_last` do.
struct full_kernel {
  static constexpr int threads = 32;
  [[nodiscard]] static std::size_t shared_bytes() { return 48 * 1024; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    (void)b.sum(1.0f);
  }
};

struct wide_kernel {
  static constexpr int threads = 32;
  std::size_t bytes;
  [[nodiscard]] std::size_t shared_bytes() const { return bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block&) const {}
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

TEST_CASE("cuda_kernel: the limit of shared memory is raised once for each kernel") {
  const gpu device;
  const auto s = device.make_stream();
  const std::size_t before = host_cuda_counts().attributes;
  for (int k = 0; k < 3; ++k) s.launch_kernel(1, wide_kernel{40'000});
  CHECK(host_cuda_counts().attributes == before);
  for (int k = 0; k < 3; ++k) s.launch_kernel(1, wide_kernel{60'000});
  CHECK(host_cuda_counts().attributes == before + 1);
  for (int k = 0; k < 3; ++k) s.launch_kernel(1, wide_kernel{90'000});
  s.launch_kernel(1, wide_kernel{60'000});
  CHECK(host_cuda_counts().attributes == before + 2);
  device.close_stream(s);
}

TEST_CASE("cuda_kernel: what a kernel declares itself counts as shared memory") {
  const gpu device;
  const auto s = device.make_stream();
  CHECK(message_of([&] { s.launch_kernel(1, full_kernel{}); }).empty());
  device.close_stream(s);
}

TEST_CASE("cuda_kernel: an error of a launch names its kernel") {
  const gpu device;
  const auto s = device.make_stream();
  host_cuda_counts().failure = cudaErrorInvalidConfiguration;
  const std::string text = message_of([&] { s.launch_kernel(1, wide_kernel{0}); });
  CHECK(text.find("launch of ") != std::string::npos);
  CHECK(text.find("wide_kernel") != std::string::npos);
  CHECK(text.find("compute-sanitizer") == std::string::npos);
  CHECK(message_of([&] { s.launch_kernel(1, wide_kernel{0}); }).empty());
  device.close_stream(s);
}

TEST_CASE("cuda_kernel: a sticky error is said to be of an earlier kernel, with how to find it") {
  const gpu device;
  const auto s = device.make_stream();
  auto& state = host_cuda_counts();
  state.failure = cudaErrorIllegalAddress;
  state.sticky = true;
  const std::string launch = message_of([&] { s.launch_kernel(1, wide_kernel{0}); }),
                    wait = message_of([&] { s.finish(); });
  state.failure = state.last = cudaSuccess;
  state.sticky = false;
  CHECK(wait.find("cudaStreamSynchronize: an illegal memory access") != std::string::npos);
  for (const std::string& text : {launch, wait})
    for (const char* part :
         {"launched before this call", "CUDA_LAUNCH_BLOCKING=1", "compute-sanitizer"})
      CHECK(text.find(part) != std::string::npos);
  device.close_stream(s);
}
