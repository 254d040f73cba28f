// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of the current GPU. Where there is none left, the streams' pool returns what it keeps to
// the driver and the allocation is tried again; the error that remains states how much is free.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <cordee/core/concat.hpp>
#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Returns all memory that the pool of the current GPU keeps, and that no stream uses, to the
/// driver. Blocks the host until the GPU is idle; but while another thread captures a graph it
/// cannot be waited for, and only what is unused already is returned. Throws error for what ran
/// there before.
inline void trim_cuda_pool() {
  int ordinal = 0;
  cudaMemPool_t pool = nullptr;
  const cudaError_t status = cudaDeviceSynchronize();
  if (status == cudaErrorStreamCaptureUnsupported)
    (void)cudaGetLastError();  // cleared: a later launch tests it
  else
    cuda_check(status, "cudaDeviceSynchronize");
  cuda_check(cudaGetDevice(&ordinal), "cudaGetDevice");
  cuda_check(cudaDeviceGetDefaultMemPool(&pool, ordinal), "cudaDeviceGetDefaultMemPool");
  cuda_check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
}

/// Bytes that allocations on the current GPU can take, after trim_cuda_pool().
inline std::size_t free_cuda_memory() {
  std::size_t free = 0, total = 0;
  trim_cuda_pool();
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

[[noreturn, gnu::cold]] inline void cuda_out_of_memory(std::string_view call, std::size_t size) {
  std::size_t free = 0, total = 0;
  const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
  cuda_failed(cudaErrorMemoryAllocation,
              concat(call, " of ", core::grouped(size), " bytes",
                     known ? concat(", with ", core::grouped(free), " of the GPU's ",
                                    core::grouped(total), " bytes free")
                           : ""));
}

/// The memory that allocate(&memory), named `call`, returns; once more after trim_cuda_pool() if
/// `retry`. Null for zero bytes.
template <class Allocate>
void* allocate_or_trim(std::string_view call, std::size_t size, bool retry,
                       const Allocate& allocate) {
  void* memory = nullptr;
  if (size == 0) return memory;
  cudaError_t status = allocate(&memory);
  if (status == cudaErrorMemoryAllocation && retry) {
    (void)cudaGetLastError();
    trim_cuda_pool();
    status = allocate(&memory);
  }
  if (status == cudaErrorMemoryAllocation) cuda_out_of_memory(call, size);
  if (status != cudaSuccess)
    cuda_failed(status, concat(call, " of ", core::grouped(size), " bytes"));
  return memory;
}

/// Memory in the order of a stream, for a stack_arena.
struct cuda_stream_memory {
  cudaStream_t s = nullptr;

  /// A capture takes the memory for the graph that it makes.
  [[nodiscard]] bool may_grow() const noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(s, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusNone;
  }
  [[nodiscard]] void* allocate(std::size_t size) const {
    return allocate_or_trim("cudaMallocAsync", size, may_grow(),
                            [&](void** memory) { return cudaMallocAsync(memory, size, s); });
  }
  [[nodiscard]] void* try_allocate(std::size_t size) const noexcept {
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, size, s) == cudaSuccess) return memory;
    (void)cudaGetLastError();  // cleared: a later launch tests it
    return nullptr;
  }
  void release(void* memory) const noexcept {
    if (memory != nullptr) cudaFreeAsync(memory, s);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
