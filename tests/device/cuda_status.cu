// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/device/cuda_status.hpp>

#include "tests/support/has_gpu.cuh"

using namespace cordee;

namespace {
std::string said(cudaError_t status) {
  try {
    detail::cuda_check(status, "cudaThis of 7 bytes");
  } catch (const error& e) {
    return e.what();
  }
  return {};
}
}  // namespace

TEST_CASE(
    "cuda_status: an error names the call, what CUDA says, and the remedy; also without a GPU") {
  CHECK(said(cudaSuccess).empty());
  CHECK(said(cudaErrorInvalidValue).find("cuda: cudaThis of 7 bytes: ") == 0);
  CHECK(said(cudaErrorMemoryAllocation).find("smaller batch") != std::string::npos);
  CHECK(said(cudaErrorNoDevice).find("needs an NVIDIA GPU") != std::string::npos);
  CHECK(said(cudaErrorInvalidValue).find(';') == std::string::npos);
}

TEST_CASE("cuda_status: what was told is not told again at the next launch") {
  if (!support::has_gpu()) return;
  void* memory = nullptr;
  CHECK(said(cudaMalloc(&memory, std::size_t{1} << 60)).find("cuda: ") == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
}
