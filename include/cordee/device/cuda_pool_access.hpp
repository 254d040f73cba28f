// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Access of one GPU to another's pool. Memory of cudaMallocAsync is its own GPU's alone until its
// pool is opened; cudaMalloc's is not.
#pragma once

#include <span>

#include <cuda_runtime_api.h>

#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Lets other GPUs, on which ranks of this process run, access the memory of GPU `own`'s pool: a
/// reducer or a layer may pass temporary memory of a stream.
[[gnu::cold]] inline void share_pool(int own, std::span<const int> peers) {
  cudaMemPool_t pool = nullptr;
  cuda_check(cudaDeviceGetDefaultMemPool(&pool, own), "cudaDeviceGetDefaultMemPool");
  for (const int peer : peers) {
    int reachable = 0;
    cuda_check(cudaDeviceCanAccessPeer(&reachable, peer, own), "cudaDeviceCanAccessPeer");
    if (reachable == 0) continue;  // copies then go through host memory
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    cuda_check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess");
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::device
