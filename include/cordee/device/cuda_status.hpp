// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA runtime answered: nothing, or an error that names the call, what CUDA says of it,
// and the remedy. And which streams are its.
#pragma once

#include <concepts>
#include <string_view>

#include <cuda_runtime_api.h>

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>
#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI::detail {

[[noreturn, gnu::cold]] inline void cuda_failed(cudaError_t status, std::string_view call) {
  (void)cudaGetLastError();  // told here: whoever catches it may launch, and asks what came of that
  const std::string_view remedy =
      status == cudaErrorMemoryAllocation
          ? "; use a smaller batch per rank or fewer ranks on this GPU"
      : status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver
          ? "; this program needs an NVIDIA GPU and a driver as new as its CUDA runtime: run it "
            "where they are, or compose it with cpu"
          : "";
  throw error(text("cuda: ", call, ": ", cudaGetErrorString(status), remedy));
}
inline void cuda_check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) cuda_failed(status, call);
}

/// A grid's stream that kernels of CUDA's libraries can join.
template <class S>
concept CudaStream = GridStream<S> && requires(const S s) {
  { s.handle } -> std::convertible_to<cudaStream_t>;
};

}  // namespace cordee::inline CORDEE_ABI::detail
