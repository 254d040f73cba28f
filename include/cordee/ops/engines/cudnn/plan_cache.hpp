// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU's cuDNN handle, and its execution plans by key. All threads share them, so a trainer whose
// steps move to another thread finds its plans there; one thread at a time uses the handle.
//
// A plan is selected when its key is first used. Unless the settings say `deterministic`, the
// heuristics' first twelve plans are run on the tensors given, and the one with the least time is
// kept. This blocks on the stream, so it cannot happen during a graph capture: run a step before
// capturing one.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <cuda_runtime_api.h>

#include <cordee/device/cuda_status.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/engines/cudnn/plan.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What tells convolutions apart, as a part of a map's key.
inline std::array<int, 8> as_array(const convolution_problem& p) {
  return {p.in.channels, p.in.height, p.in.width, p.filters,
          p.window,      p.stride,    p.padding,  p.margin};
}

/// Measures milliseconds of work on a stream, for each of `runs` in a row. One more run precedes
/// the first event: on an idle stream the host's time to launch would count.
class cuda_stopwatch {
 public:
  explicit cuda_stopwatch(cudaStream_t s) : s_(s), from_(make()), to_(make()) {}

  template <class F>
  float operator()(int runs, const F& work) {
    work();
    device::cuda_check(cudaEventRecord(from_.get(), s_), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) work();
    device::cuda_check(cudaEventRecord(to_.get(), s_), "cudaEventRecord");
    device::cuda_check(cudaEventSynchronize(to_.get()), "cudaEventSynchronize");
    float time = 0;
    device::cuda_check(cudaEventElapsedTime(&time, from_.get(), to_.get()), "cudaEventElapsedTime");
    return time / static_cast<float>(runs);
  }

 private:
  struct destroy {
    void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
  };
  using event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy>;
  static event make() {
    cudaEvent_t raw = nullptr;
    device::cuda_check(cudaEventCreate(&raw), "cudaEventCreate");
    return event(raw);
  }

  cudaStream_t s_;
  event from_, to_;
};

class cudnn_plan_cache {
 public:
  /// The cache of the calling thread's current device, destroyed when the program ends.
  static cudnn_plan_cache& current() {
    int ordinal = 0;
    device::cuda_check(cudaGetDevice(&ordinal), "cudaGetDevice");
    static std::mutex mutex;
    static std::map<int, cudnn_plan_cache> caches;
    const std::scoped_lock lock(mutex);
    return caches[ordinal];
  }

  cudnn_plan_cache() {
    cudnnHandle_t raw = nullptr;
    cudnn_check(cudnnCreate(&raw), "cudnnCreate");
    handle_.reset(raw);
  }

  /// Executes the key's pass in stream order.
  template <device::CudaStream S>
  void execute(const cudnn_plan_key& key, const cudnn_pointers& data, S s) {
    const std::scoped_lock lock(mutex_);
    try {
      cudnn_check(cudnnSetStream(handle_.get(), s.handle), "cudnnSetStream");
      std::optional<cudnn_plan>& plan = plans_[as_tuple(key)];
      if (!plan) plan = select_plan(key, data, s);
      execute(*plan, data, s);
    } catch (const error& e) {
      throw error(concat(e.what(), " (", describe(key), ")"));
    }
  }
  /// f(handle) for work of this stream, while no other thread uses the handle.
  template <device::CudaStream S, class F>
  auto with_handle(S s, const F& f) {
    const std::scoped_lock lock(mutex_);
    cudnn_check(cudnnSetStream(handle_.get(), s.handle), "cudnnSetStream");
    return f(handle_.get());
  }

 private:
  static constexpr std::size_t candidates = 12;
  static constexpr int measurements = 2, runs = 3;  // the least of the means is taken

  using tuple = std::pair<std::array<int, 8>, std::array<int, 6>>;
  static tuple as_tuple(const cudnn_plan_key& key) {
    return {as_array(key.p),
            {key.samples, static_cast<int>(key.pass), static_cast<int>(key.data_type),
             key.accumulate, key.settings.deterministic, key.settings.tf32}};
  }

  template <device::CudaStream S>
  void execute(cudnn_plan& plan, const cudnn_pointers& data, S s) {
    const device::stream_buffer<std::byte, S> workspace(s, plan.workspace_bytes());  // cuDNN's
    plan.execute(handle_.get(), data, workspace.data());
  }

  template <device::CudaStream S>
  cudnn_plan select_plan(const cudnn_plan_key& key, cudnn_pointers data, S s) {
    std::vector<cudnn_plan> plans =
        cudnn_plans(key, {handle_.get(), nullptr}, key.settings.deterministic ? 1 : candidates);
    if (plans.empty())
      throw error("cudnn: no engine of this version supports this convolution on this GPU");
    if (plans.size() == 1) return std::move(plans.front());
    // An accumulating pass would add to its output once a trial: trials write to scratch memory.
    const device::stream_buffer<std::byte, S> scratch(  // (N, H, W, C') of the key's type
        s, key.accumulate ? bytes_of_x(key) : 0);
    if (key.accumulate) data.x = scratch.data();
    cuda_stopwatch stopwatch(s.handle);
    std::vector<float> times;
    for (cudnn_plan& plan : plans) times.push_back(time_plan(plan, data, s, stopwatch));
    // If all fail, the first is kept and its execution throws the reason.
    return std::move(
        plans[static_cast<std::size_t>(std::ranges::min_element(times) - times.begin())]);
  }

  /// Milliseconds; infinite if the execution fails, mostly for lack of memory.
  template <device::CudaStream S>
  float time_plan(cudnn_plan& plan, const cudnn_pointers& data, S s, cuda_stopwatch& stopwatch) {
    float least = std::numeric_limits<float>::infinity();
    try {
      for (int i = 0; i < measurements; ++i)  // the run before the first loads the kernels
        least = std::min(least, stopwatch(runs, [&] { execute(plan, data, s); }));
    } catch (const error&) {
      return std::numeric_limits<float>::infinity();
    }
    return least;
  }

  static std::size_t bytes_of_x(const cudnn_plan_key& key) {
    return static_cast<std::size_t>(key.samples) * key.p.in.size() *
           (key.data_type == CUDNN_DATA_FLOAT ? 4 : 2);
  }

  struct destroy {
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  std::mutex mutex_;
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, destroy> handle_;
  std::map<tuple, std::optional<cudnn_plan>> plans_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
