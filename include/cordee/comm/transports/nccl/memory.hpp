// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU memory of ncclMemAlloc, which NCCL can register: a range of addresses of its own, aligned and
// rounded up as its registration for NVLS wants (user's guide 2.30, "Memory Allocator"). Since NCCL
// 2.19; before, there is none. Where the driver has no cuMem* functions, or NCCL_CUMEM_ENABLE is 0,
// it is memory of cudaMalloc (src/allocator.cc, 2.30).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cordee/comm/transports/nccl/status.hpp>
#include <cordee/device/cuda_memory.hpp>
#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Whether this NCCL allocates and registers memory.
inline constexpr bool nccl_registers_memory = NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0);

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
inline ncclResult_t nccl_allocate(void** memory, std::size_t size) {
  return ncclMemAlloc(memory, size);
}
inline void nccl_free(void* memory) noexcept { ncclMemFree(memory); }
#else
inline ncclResult_t nccl_allocate(void**, std::size_t) { return ncclInvalidUsage; }
inline void nccl_free(void*) noexcept {}
#endif

/// Memory of the current GPU, which is the same for all calls.
class nccl_memory {
 public:
  nccl_memory() = default;
  nccl_memory(const nccl_memory&) = delete;
  nccl_memory& operator=(const nccl_memory&) = delete;
  /// Frees what release() has not, and what is kept.
  ~nccl_memory() {
    if (blocks_.empty()) return;
    (void)await_gpu();
    for (const block& b : blocks_) nccl_free(b.data);
  }

  /// So many bytes, not zero, of undefined content; of what is kept, if that has this size. Where
  /// there is no memory left the GPU is awaited, its pool trimmed, and the call made once more; the
  /// error that remains is out_of_memory. `comm` is where NCCL's own text about an error is asked
  /// for.
  [[nodiscard]] void* allocate(ncclComm_t comm, std::size_t size) {
    for (block& b : blocks_)
      if (b.is_kept && b.size == size) {
        b.is_kept = false;
        return b.data;
      }
    blocks_.reserve(blocks_.size() + 1);
    const auto try_once = [&](void** memory) {
      const ncclResult_t status = nccl_allocate(memory, size);
      if (status == ncclSuccess) return cudaSuccess;
      if (lacks_memory(status, comm, size)) return cudaErrorMemoryAllocation;
      throw_nccl_error(status, device::describe_call("ncclMemAlloc", size), comm);
    };
    void* const memory = device::allocate_or_trim("ncclMemAlloc", size, true, try_once);
    blocks_.push_back({memory, size});
    return memory;
  }

  /// Blocks the host until the GPU is idle; false if it cannot be awaited, since another thread
  /// captures a graph or a kernel has failed.
  static bool await_gpu() noexcept {
    if (cudaDeviceSynchronize() == cudaSuccess) return true;
    (void)cudaGetLastError();  // cleared: a later launch tests it
    return false;
  }
  /// Frees the memory, or if `keep`, keeps it for allocate(). Blocks the host until the GPU is
  /// idle: unlike cudaFree, ncclMemFree unmaps memory at once (cuMemUnmap). Memory of a GPU that
  /// cannot be awaited is not used again.
  void release(void* memory, bool keep) noexcept {
    if (!await_gpu()) return;
    const auto at = std::find_if(blocks_.begin(), blocks_.end(),
                                 [&](const block& b) { return b.data == memory; });
    at->is_kept = keep;
    if (keep) return;
    blocks_.erase(at);
    nccl_free(memory);
  }

 private:
  struct block {
    void* data;
    std::size_t size;
    bool is_kept = false;
  };

  // NCCL has one status for all of CUDA's errors. Its text names the last one, which may be another
  // thread's.
  [[gnu::cold]] static bool lacks_memory(ncclResult_t status, ncclComm_t comm, std::size_t size) {
    (void)cudaGetLastError();  // cleared: a later launch tests it
    if (status != ncclUnhandledCudaError) return false;
    const char* const text = ncclGetLastError(comm);
    if (text != nullptr && std::string_view(text).find("out of memory") != std::string_view::npos)
      return true;
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess && free < size;
  }

  std::vector<block> blocks_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
