// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The streams of a GPU, each with its temporary memory, kept for reuse.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include <cordee/device/cuda_memory.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/stack_arena.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

using cuda_arena = stack_arena<cuda_stream_memory>;

/// Kernels of a `high` stream are scheduled before those of a `normal` one: an exchange, for which
/// other ranks wait, before compute, which has more work than the GPU takes at once.
enum class stream_priority { normal, high };

/// Of the GPU that is current when a stream is acquired. Shared by the copies of a device; streams
/// are destroyed with the last one.
class cuda_stream_pool {
 public:
  struct pooled_stream {
    cudaStream_t handle;
    cuda_arena* temporary;
  };

  cuda_stream_pool() = default;
  cuda_stream_pool(const cuda_stream_pool&) = delete;
  cuda_stream_pool& operator=(const cuda_stream_pool&) = delete;
  ~cuda_stream_pool() {
    for (entry& e : all_) {
      e.temporary.reset();  // in the order of the stream
      cudaStreamDestroy(e.handle);
    }
  }

  pooled_stream acquire(stream_priority priority) {
    const std::scoped_lock lock(mutex_);
    for (entry& e : all_)
      if (e.idle && e.priority == priority) {
        e.idle = false;
        return {e.handle, e.temporary.get()};
      }
    int least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
    cudaStream_t s = nullptr;
    cuda_check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking,
                                            priority == stream_priority::high ? greatest : least),
               "cudaStreamCreateWithPriority");
    all_.push_back({s, priority, false, std::make_unique<cuda_arena>(cuda_stream_memory{s})});
    return {s, all_.back().temporary.get()};
  }
  void recycle(cudaStream_t s) noexcept {
    const std::scoped_lock lock(mutex_);
    for (entry& e : all_) e.idle = e.idle || e.handle == s;
  }

 private:
  struct entry {
    cudaStream_t handle;
    stream_priority priority;
    bool idle;
    std::unique_ptr<cuda_arena> temporary;
  };

  std::mutex mutex_;
  std::vector<entry> all_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
