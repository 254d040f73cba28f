// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA resources of a context over NCCL: GPU memory, streams and events, page-locked host
// memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// GPU memory that grows and never shrinks, by cudaMalloc: ranks of one process read each other's
/// memory, which another GPU may do with that of a pool (cudaMallocAsync) only where it has access.
/// What it has grown out of is kept to the end, at most as much again: cudaFree would wait for what
/// is in flight on other contexts.
class grow_only_memory {
 public:
  grow_only_memory() = default;
  grow_only_memory(const grow_only_memory&) = delete;
  grow_only_memory& operator=(const grow_only_memory&) = delete;
  ~grow_only_memory() {
    for (void* const block : blocks_) cudaFree(block);
  }
  /// At least so many bytes of the calling thread's GPU, of undefined content.
  [[nodiscard]] std::byte* reserve(std::size_t size) {
    if (size > capacity_) {
      const std::size_t grown = std::max({size, 2 * capacity_, std::size_t{1} << 16});
      void* block = nullptr;
      device::cuda_check(cudaMalloc(&block, grown), "cudaMalloc");
      blocks_.push_back(block);
      capacity_ = grown;
    }
    return blocks_.empty() ? nullptr : static_cast<std::byte*>(blocks_.back());
  }

 private:
  std::vector<void*> blocks_;
  std::size_t capacity_ = 0;
};

/// A context's streams, one for staging and one that is ordered after nothing, for the inspection
/// of running operations; and its events.
struct stream_set {
  stream_set() {
    try {
      for (cudaStream_t* s : {&staging, &inspection})
        device::cuda_check(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "cudaStreamCreate");
      for (cudaEvent_t* e : {&started, &completed})
        device::cuda_check(cudaEventCreateWithFlags(e, cudaEventDisableTiming), "cudaEventCreate");
    } catch (...) {
      close();
      throw;
    }
  }
  stream_set(const stream_set&) = delete;
  stream_set& operator=(const stream_set&) = delete;
  ~stream_set() { close(); }

  cudaStream_t staging = nullptr, inspection = nullptr;
  cudaEvent_t started = nullptr, completed = nullptr;

 private:
  void close() const noexcept {
    for (const cudaEvent_t e : {started, completed})
      if (e != nullptr) cudaEventDestroy(e);
    for (const cudaStream_t s : {staging, inspection})
      if (s != nullptr) cudaStreamDestroy(s);
  }
};

/// Page-locked host memory: an asynchronous copy from the GPU to pageable memory would block on a
/// running operation.
class pinned_sizes {
 public:
  pinned_sizes() = default;
  pinned_sizes(const pinned_sizes&) = delete;
  pinned_sizes& operator=(const pinned_sizes&) = delete;
  ~pinned_sizes() { cudaFreeHost(data_); }
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    cudaFreeHost(std::exchange(data_, nullptr));
    capacity_ = std::max<std::size_t>(n, 64);
    device::cuda_check(cudaMallocHost(&data_, capacity_ * sizeof(std::uint64_t)), "cudaMallocHost");
  }
  [[nodiscard]] std::uint64_t* data() const { return static_cast<std::uint64_t*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
