// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A test double of the CUDA runtime that counts: a program that nvcc compiled and that links
// cuda_on_host.cpp instead of the runtime goes through all of its host code, without a GPU. Kernels
// do not run. Memory is the host's and zero initially; of copies only those of at most 64 KiB are
// made, so that a network of any size is cheap.
//
// Work is complete when the host has waited for it, and no earlier. What a thread calls is counted
// by itself, so that ranks may be threads; memory and streams are everybody's.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace support {

/// What was called, and what the double is to return.
struct host_cuda_state {
  std::size_t launches = 0;                   // of kernels, not those of graphs
  std::size_t graph_launches = 0;             // of whole graphs
  std::size_t captured = 0;                   // launches captured in graphs
  std::size_t means = 0, captured_means = 0;  // collectives of NCCL's double (nccl_counting/nccl.h)
  std::size_t registered = 0, deregistered = 0;  // buffers of NCCL's double
  std::size_t copies = 0, clears = 0;
  std::size_t waits = 0;        // that blocked the host
  std::size_t polls = 0;        // waits by cudaEventQuery: the first answers that work is left
  std::size_t pageable = 0;     // copies that blocked since the host's memory is pageable
  std::size_t pool_calls = 0;   // cudaMallocAsync and cudaFreeAsync
  std::size_t allocations = 0;  // cudaMalloc
  std::size_t attributes = 0;   // cudaFuncSetAttribute
  std::size_t trims = 0, device_waits = 0;    // cudaMemPoolTrimTo, cudaDeviceSynchronize
  std::size_t memory = std::size_t{1} << 40;  // of the GPU, in bytes
  std::size_t used = 0, pooled = 0;           // of it, in use and kept by the pool
  int gpus = 1;
  cudaError_t failure = cudaSuccess;   // of the next launch
  bool sticky = false;                 // every call returns `failure` from then on
  cudaError_t last = cudaSuccess;      // until cudaGetLastError
  std::vector<int> priorities;         // of the streams created
  std::vector<int> pool_peers;         // GPUs to which a pool was opened
  std::map<std::string, int> kernels;  // launches by the kernel's mangled name
};
/// Of the calling thread.
host_cuda_state& host_cuda_counts();
/// Adds a node to the graph that `s` captures, if it does; the graph owns `held`.
bool capture_node(cudaStream_t s, const std::shared_ptr<void>& held);

}  // namespace support
