// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/device/cuda_status.hpp>

using namespace cordee;

namespace {
std::string message_of(cudaError_t status) {
  try {
    detail::device::cuda_check(status, "cudaThis of 7 bytes");
  } catch (const error& e) {
    return e.what();
  }
  return {};
}
}  // namespace

TEST_CASE("cuda_status: an error names the call, CUDA's message and the remedy; needs no GPU") {
  CHECK(message_of(cudaSuccess).empty());
  CHECK(message_of(cudaErrorInvalidValue).find("cuda: cudaThis of 7 bytes: ") == 0);
  CHECK(message_of(cudaErrorMemoryAllocation).find("smaller batch") != std::string::npos);
  CHECK(message_of(cudaErrorNoDevice).find("needs an NVIDIA GPU") != std::string::npos);
  CHECK(message_of(cudaErrorInvalidValue).find(';') == std::string::npos);
}

TEST_CASE("cuda_status: a reported error is cleared, and not reported by the next launch") {
  void* memory = nullptr;
  CHECK(message_of(cudaMalloc(&memory, std::size_t{1} << 60)).find("cuda: ") == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
}
