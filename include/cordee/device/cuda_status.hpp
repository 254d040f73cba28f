// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime's status codes as exceptions that name the call, CUDA's message and the remedy;
// and the concept of its streams.
#pragma once

#include <concepts>
#include <string_view>

#include <cuda_runtime_api.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Whether an error is of a kernel or copy that ran before the call which returns it, after which
/// every call on this GPU fails: the context is lost.
constexpr bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

[[noreturn, gnu::cold]] inline void cuda_failed(cudaError_t status, std::string_view call) {
  (void)cudaGetLastError();  // cleared: a later launch tests it
  const std::string_view remedy =
      is_sticky(status)
          ? "; the error is of a kernel that was launched before this call, and ends the use of "
            "this GPU by the process: to find the kernel, run with CUDA_LAUNCH_BLOCKING=1, or "
            "under compute-sanitizer"
      : status == cudaErrorMemoryAllocation
          ? "; use a smaller batch per rank or fewer ranks on this GPU"
      : status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver
          ? "; this program needs an NVIDIA GPU and a driver as new as its CUDA runtime: run it "
            "where they are, or compose it with cpu"
          : "";
  const std::string message = concat("cuda: ", call, ": ", cudaGetErrorString(status), remedy);
  if (status == cudaErrorMemoryAllocation) throw core::out_of_memory(message);
  throw error(message);
}
inline void cuda_check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) cuda_failed(status, call);
}

/// A stream that CUDA's libraries can use too.
template <class S>
concept CudaStream = GpuStream<S> && requires(const S s) {
  { s.handle } -> std::convertible_to<cudaStream_t>;
};

/// "cudaMalloc of 1,024 bytes"
inline std::string describe_call(const char* call, std::size_t size) {
  return concat(call, " of ", core::grouped(size), " bytes");
}

}  // namespace cordee::inline CORDEE_ABI::detail::device
