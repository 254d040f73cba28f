// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The streams of a GPU, each with its temporary memory, kept for reuse.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include <cordee/core/error.hpp>
#include <cordee/device/cuda_memory.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/stack_arena.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// A stream's temporary memory, and its counters (GpuStream). Counters stay where they are, for
/// captured launches: more are more memory.
class cuda_arena : public stack_arena<cuda_stream_memory> {
 public:
  explicit cuda_arena(cuda_stream_memory memory)
      : stack_arena<cuda_stream_memory>(memory), memory_(memory) {}
  cuda_arena(const cuda_arena&) = delete;
  cuda_arena& operator=(const cuda_arena&) = delete;
  ~cuda_arena() {
    for (unsigned* const c : counters_) memory_.release(c);
  }

  [[nodiscard]] unsigned* counters(std::size_t n) {
    if (n <= size_) return n == 0 ? nullptr : counters_.back();
    expects(memory_.may_grow(), "a stream's counters are made before its work is captured");
    const std::size_t size = std::max(n, std::size_t{4096}), bytes = size * sizeof(unsigned);
    counters_.reserve(counters_.size() + 1);
    auto* const made = static_cast<unsigned*>(memory_.allocate(bytes));
    counters_.push_back(made);
    cuda_check(cudaMemsetAsync(made, 0, bytes, memory_.s), "cudaMemsetAsync");
    size_ = size;
    return made;
  }

 private:
  cuda_stream_memory memory_;
  std::vector<unsigned*> counters_;
  std::size_t size_ = 0;  // of the last ones
};

/// Kernels of a `high` stream are scheduled before those of a `normal` one: an exchange, for which
/// other ranks wait, before compute, which has more work than the GPU takes at once.
enum class stream_priority { normal, high };

/// Streams of the GPU that is current when one is acquired. Shared by the copies of a device;
/// streams are destroyed with the last one.
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
