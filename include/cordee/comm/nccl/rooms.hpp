// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a lane over NCCL needs of CUDA: streams, events, memory of the GPU and of the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// Memory of a GPU in the order of a stream.
class cuda_room {
 public:
  cuda_room(std::size_t size, cudaStream_t s) : s_(s) {
    if (size != 0) cuda_check(cudaMallocAsync(&data_, size, s), "cudaMallocAsync");
  }
  cuda_room(const cuda_room&) = delete;
  cuda_room& operator=(const cuda_room&) = delete;
  ~cuda_room() {
    if (data_ != nullptr) cudaFreeAsync(data_, s_);
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  cudaStream_t s_;
  void* data_ = nullptr;
};

/// A lane's streams, its own and one that waits for nothing, and its events.
struct cuda_handles {
  cuda_handles() {
    try {
      for (cudaStream_t* s : {&own, &aside})
        cuda_check(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "cudaStreamCreate");
      for (cudaEvent_t* e : {&begun, &done})
        cuda_check(cudaEventCreateWithFlags(e, cudaEventDisableTiming), "cudaEventCreate");
    } catch (...) {
      close();
      throw;
    }
  }
  cuda_handles(const cuda_handles&) = delete;
  cuda_handles& operator=(const cuda_handles&) = delete;
  ~cuda_handles() { close(); }

  cudaStream_t own = nullptr, aside = nullptr;
  cudaEvent_t begun = nullptr, done = nullptr;

 private:
  void close() const noexcept {
    for (const cudaEvent_t e : {begun, done})
      if (e != nullptr) cudaEventDestroy(e);
    for (const cudaStream_t s : {own, aside})
      if (s != nullptr) cudaStreamDestroy(s);
  }
};

/// Memory of the host for copies that do not wait: one from the GPU to other memory would, for
/// ever.
class pinned_sizes {
 public:
  pinned_sizes() = default;
  pinned_sizes(const pinned_sizes&) = delete;
  pinned_sizes& operator=(const pinned_sizes&) = delete;
  ~pinned_sizes() { cudaFreeHost(data_); }
  void reserve(std::size_t n) {
    if (n <= room_) return;
    cudaFreeHost(std::exchange(data_, nullptr));
    room_ = std::max<std::size_t>(n, 64);
    cuda_check(cudaMallocHost(&data_, room_ * sizeof(std::uint64_t)), "cudaMallocHost");
  }
  [[nodiscard]] std::uint64_t* data() const { return static_cast<std::uint64_t*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail
