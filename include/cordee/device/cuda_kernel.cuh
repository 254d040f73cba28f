// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels (device/gpu_kernel.hpp) on the hardware: the thread block, the __global__ function of
// every kernel, and its launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include <cuda_runtime.h>

#include <cordee/core/concat.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/cuda_warp.cuh>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::device {

/// A thread block of the hardware: models ThreadBlock and, where all warps are whole, MmaBlock.
template <int Threads>
class cuda_thread_block : public cuda_warp {
 public:
  CORDEE_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  CORDEE_DEVICE std::size_t index() const { return blockIdx.x; }
  CORDEE_DEVICE std::size_t blocks() const { return gridDim.x; }
  CORDEE_DEVICE void sync() { __syncthreads(); }

  /// From a line of all banks on, which CUDA's guide requires of asynchronous copies.
  template <class T>
  CORDEE_DEVICE T* shared(std::size_t n) {
    extern __shared__ __align__(128) unsigned char memory[];
    const std::size_t offset = used_;
    used_ += (n * sizeof(T) + 15) / 16 * 16;
    return reinterpret_cast<T*>(memory + offset);
  }
  /// Within each warp, then over the warps. cub::BlockReduce is not used: docs/primitives.md.
  template <class T>
  CORDEE_DEVICE T sum(T x) {
    static_assert(Threads % 32 == 0, "a sum takes whole warps");
    constexpr int warps = Threads / 32;
    __shared__ T warp_sums[warps];
    for (int apart = 16; apart > 0; apart /= 2) x += __shfl_down_sync(0xffffffff, x, apart);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = x;
    __syncthreads();
    T total = warp_sums[0];
    for (int warp = 1; warp < warps; ++warp) total += warp_sums[warp];
    __syncthreads();  // before the next sum writes
    return total;
  }
  /// The fences order the block's accesses before those of the last block; the counter wraps to
  /// zero. Shared memory of its own would displace the kernel's.
  CORDEE_DEVICE bool is_last(unsigned* arrived, unsigned blocks) {
    bool last = false;
    __syncthreads();
    if (threadIdx.x == 0) {
      fence();
      last = atomicInc(arrived, blocks - 1) == blocks - 1;
      if (last) fence();
    }
    return __syncthreads_or(last) != 0;
  }

 private:
  /// Release and acquire, with what the barriers order; __threadfence() is sequentially consistent.
  CORDEE_DEVICE static void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

  std::size_t used_ = 0;
};

/// Blocks of a kernel that a multiprocessor must hold at once, which limits their registers; 0
/// unless the kernel has such a number.
template <class Kernel>
constexpr int resident_blocks() {
  if constexpr (requires { Kernel::resident_blocks; })
    return Kernel::resident_blocks;
  else
    return 0;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, resident_blocks<Kernel>())
    kernel_entry(const __grid_constant__ Kernel kernel) {
  cuda_thread_block<Kernel::threads> block;
  kernel(block);
}

/// A kernel's shared memory above 48 KiB, with what it declares itself (`sum`, `is_last`), is an
/// opt-in, once for each kernel and GPU. `allowed` is the kernel's, by GPU.
constexpr std::size_t shared_without_opt_in = 48 * 1024, declared_shared = 1024;  // at most
constexpr int known_gpus = 64;  // of further ones the limit is set at each launch
inline void allow_shared_memory(const void* entry, std::size_t bytes,
                                std::atomic<std::size_t> (&allowed)[known_gpus]) {
  int ordinal = 0;
  cuda_check(cudaGetDevice(&ordinal), "cudaGetDevice");
  if (ordinal < known_gpus && allowed[ordinal].load(std::memory_order_relaxed) >= bytes) return;
  cuda_check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             concat("cudaFuncSetAttribute of ", bytes, " bytes of shared memory"));
  if (ordinal < known_gpus) allowed[ordinal].store(bytes, std::memory_order_relaxed);
}

/// The kernel's type in `function`, a signature as the compiler writes it.
inline std::string_view kernel_name(std::string_view function) {
  const std::size_t first = function.find("Kernel = ") + 9;  // "... [with Kernel = name; ...]"
  return function.substr(first, function.find_first_of(";]", first) - first);
}

/// No part of the template below, of which a network has dozens.
inline void expect_launched(const char* function) {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) cuda_failed(status, concat("launch of ", kernel_name(function)));
}

/// The kernel's dynamic shared memory in bytes, which a launch may then have.
template <class Kernel>
std::size_t allowed_shared_memory(const Kernel& kernel) {
  const std::size_t shared = shared_bytes(kernel);
  if (shared + declared_shared > shared_without_opt_in) {
    static std::atomic<std::size_t> allowed[known_gpus] = {};
    allow_shared_memory(reinterpret_cast<const void*>(&kernel_entry<Kernel>), shared, allowed);
  }
  return shared;
}

/// Requires blocks > 0.
template <class Kernel>
void launch_cuda_kernel(std::size_t blocks, const Kernel& kernel, cudaStream_t s) {
  static_assert(sizeof(Kernel) <= max_kernel_bytes,
                "a kernel's parameters are at most 4 KiB: keep arrays in device memory");
  const std::size_t shared = allowed_shared_memory(kernel);
  kernel_entry<Kernel><<<static_cast<unsigned>(blocks), Kernel::threads, shared, s>>>(kernel);
  expect_launched(__PRETTY_FUNCTION__);
}

}  // namespace detail::device

}  // namespace cordee::inline CORDEE_ABI
