// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One thread's cuDNN on one GPU: its handle, and the plan for every question it was asked.
//
// A plan is chosen when a question is first asked. Unless the settings say `deterministic`, the
// heuristics' first eight are run on the very tensors, and the quickest stays, by the least of
// three runs each. That waits for the stream, so it cannot happen while a stream is captured: run
// a step before you capture one.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include <cuda_runtime_api.h>

#include <cordee/device/cuda_status.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/grid/cudnn/plan.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Milliseconds that work on a stream takes.
class cuda_stopwatch {
 public:
  explicit cuda_stopwatch(cudaStream_t s) : s_(s), from_(make()), to_(make()) {}

  template <class F>
  float operator()(const F& work) {
    cuda_check(cudaEventRecord(from_.get(), s_), "cudaEventRecord");
    work();
    cuda_check(cudaEventRecord(to_.get(), s_), "cudaEventRecord");
    cuda_check(cudaEventSynchronize(to_.get()), "cudaEventSynchronize");
    float time = 0;
    cuda_check(cudaEventElapsedTime(&time, from_.get(), to_.get()), "cudaEventElapsedTime");
    return time;
  }

 private:
  struct destroy {
    void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
  };
  using event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy>;
  static event make() {
    cudaEvent_t raw = nullptr;
    cuda_check(cudaEventCreate(&raw), "cudaEventCreate");
    return event(raw);
  }

  cudaStream_t s_;
  event from_, to_;
};

class cudnn_desk {
 public:
  /// The one of this thread and the device that is current in it.
  static cudnn_desk& here() {
    int ordinal = 0;
    cuda_check(cudaGetDevice(&ordinal), "cudaGetDevice");
    static thread_local std::map<int, cudnn_desk> desks;
    return desks[ordinal];
  }

  cudnn_desk() {
    cudnnHandle_t raw = nullptr;
    cudnn_check(cudnnCreate(&raw), "cudnnCreate");
    handle_.reset(raw);
  }

  /// Computes q in stream order.
  template <CudaStream S>
  void run(const cudnn_question& q, const cudnn_tensors& at, S s) {
    try {
      cudnn_check(cudnnSetStream(handle_.get(), s.handle), "cudnnSetStream");
      std::optional<cudnn_plan>& plan = plans_[key(q)];
      if (!plan) plan = choose(q, at, s);
      execute(*plan, at, s);
    } catch (const error& e) {
      throw error(text(e.what(), " (", to_text(q), ")"));
    }
  }

 private:
  static constexpr std::size_t candidates = 8;
  static constexpr int repetitions = 3;

  using key_type = std::array<int, 13>;
  static key_type key(const cudnn_question& q) {
    const convolution_problem& p = q.p;
    return {p.in.channels,
            p.in.height,
            p.in.width,
            p.filters,
            p.window,
            p.stride,
            p.padding,
            q.samples,
            static_cast<int>(q.pass),
            static_cast<int>(q.number),
            q.adds,
            q.how.deterministic,
            q.how.tf32};
  }

  template <CudaStream S>
  void execute(const cudnn_plan& plan, const cudnn_tensors& at, S s) {
    const lent<std::byte, S> workspace(s, plan.workspace());
    plan.execute(handle_.get(), at, workspace.data());
  }

  template <CudaStream S>
  cudnn_plan choose(const cudnn_question& q, cudnn_tensors at, S s) {
    std::vector<cudnn_plan> plans =
        cudnn_plans(q, {handle_.get(), nullptr}, q.how.deterministic ? 1 : candidates);
    if (plans.empty())
      throw error("cudnn: no engine of this version computes this convolution on this GPU");
    if (plans.size() == 1) return std::move(plans.front());
    // What adds to its result would do so in every trial.
    const lent<std::byte, S> aside(s, q.adds ? bytes_of_x(q) : 0);
    if (q.adds) at.x = aside.data();
    cuda_stopwatch watch(s.handle);
    std::vector<float> times;
    for (const cudnn_plan& plan : plans) times.push_back(trial(plan, at, s, watch));
    // Where none runs the first stays, and its execution tells why.
    return std::move(
        plans[static_cast<std::size_t>(std::ranges::min_element(times) - times.begin())]);
  }

  /// Infinite where the plan does not run, for lack of memory most of all.
  template <CudaStream S>
  float trial(const cudnn_plan& plan, const cudnn_tensors& at, S s, cuda_stopwatch& watch) {
    float least = std::numeric_limits<float>::infinity();
    try {
      execute(plan, at, s);  // loads its kernels
      for (int i = 0; i < repetitions; ++i)
        least = std::min(least, watch([&] { execute(plan, at, s); }));
    } catch (const error&) {
      return std::numeric_limits<float>::infinity();
    }
    return least;
  }

  static std::size_t bytes_of_x(const cudnn_question& q) {
    return static_cast<std::size_t>(q.samples) * q.p.in.size() *
           (q.number == CUDNN_DATA_FLOAT ? 4 : 2);
  }

  struct destroy {
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, destroy> handle_;
  std::map<key_type, std::optional<cudnn_plan>> plans_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
