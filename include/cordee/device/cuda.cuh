// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One GPU as a device: its memory, streams that launch kernels, events, graphs.
//
// The status of every call is checked: an error names the call, CUDA's message and the remedy.
// There is no fall-back: without a GPU, or without memory on it, a cordee::error is thrown.
// Programs link the CUDA runtime and never the driver's library.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cub/block/block_reduce.cuh>
#include <cuda_runtime.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/adl_base.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/cuda_warp.cuh>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/graph_capture.hpp>
#include <cordee/device/local_rank.hpp>
#include <cordee/device/pinned.hpp>

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

  template <class T>
  CORDEE_DEVICE T* shared(std::size_t n) {
    extern __shared__ __align__(16) unsigned char memory[];
    const std::size_t offset = used_;
    used_ += (n * sizeof(T) + 15) / 16 * 16;
    return reinterpret_cast<T*>(memory + offset);
  }
  template <class T>
  CORDEE_DEVICE T sum(T x) {
    using reduce = cub::BlockReduce<T, Threads>;
    __shared__ typename reduce::TempStorage work;
    __shared__ T shared_total;
    const T sum_of_thread_0 = reduce(work).Sum(x);
    if (threadIdx.x == 0) shared_total = sum_of_thread_0;
    __syncthreads();
    const T total = shared_total;
    __syncthreads();  // before the next sum writes
    return total;
  }

 private:
  std::size_t used_ = 0;
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads)
    kernel_entry(const __grid_constant__ Kernel kernel) {
  cuda_thread_block<Kernel::threads> block;
  kernel(block);
}

/// The streams of a device, shared by its copies and destroyed with the last one.
class cuda_stream_pool {
 public:
  cuda_stream_pool() = default;
  cuda_stream_pool(const cuda_stream_pool&) = delete;
  cuda_stream_pool& operator=(const cuda_stream_pool&) = delete;
  ~cuda_stream_pool() {
    for (const cudaStream_t s : all_) cudaStreamDestroy(s);
  }
  cudaStream_t acquire() {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      const cudaStream_t s = idle_.back();
      idle_.pop_back();
      return s;
    }
    cudaStream_t s = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    all_.push_back(s);
    idle_.reserve(all_.size());  // so that recycle() does not allocate
    return s;
  }
  void recycle(cudaStream_t s) noexcept {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(s);
  }

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> all_, idle_;
};

}  // namespace detail::device

/// The GPU `ordinal`; several ranks may share one. make_stream, allocate, pin, record, await and
/// capture make it the calling thread's current device.
class cuda {
 public:
  static constexpr std::string_view name = "cuda";
  static constexpr bool host_memory = false;

  struct stream : detail::ops::adl_base {
    cudaStream_t handle;

    stream(cudaStream_t s = nullptr) : handle(s) {}
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      if (blocks == 0) return;
      const std::size_t shared = detail::device::shared_bytes(kernel);
      constexpr std::size_t default_limit = 48 * 1024;  // more is an opt-in
      if (shared > default_limit)
        detail::device::cuda_check(
            cudaFuncSetAttribute(detail::device::kernel_entry<Kernel>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared)),
            concat("cudaFuncSetAttribute of ", shared, " bytes of shared memory"));
      detail::device::kernel_entry<Kernel>
          <<<static_cast<unsigned>(blocks), Kernel::threads, shared, handle>>>(kernel);
      detail::device::cuda_check(cudaGetLastError(), "launch of a kernel");
    }
    [[nodiscard]] void* allocate(std::size_t size) const {
      void* memory = nullptr;
      if (size != 0)
        detail::device::cuda_check(cudaMallocAsync(&memory, size, handle),
                                   detail::device::describe_call("cudaMallocAsync", size));
      return memory;
    }
    void release(void* memory) const noexcept {
      if (memory != nullptr) cudaFreeAsync(memory, handle);
    }
    /// Pageable host memory is read, or written, before this returns.
    void copy(void* out, const void* in, std::size_t size) const {
      if (size != 0)
        detail::device::cuda_check(cudaMemcpyAsync(out, in, size, cudaMemcpyDefault, handle),
                                   detail::device::describe_call("cudaMemcpyAsync", size));
    }
    /// Page-locked host memory, for a transport that stages.
    [[nodiscard]] static void* pin(std::size_t size) {
      void* memory = nullptr;
      detail::device::cuda_check(cudaMallocHost(&memory, size),
                                 detail::device::describe_call("cudaMallocHost", size));
      return memory;
    }
    static void unpin(void* memory) noexcept { cudaFreeHost(memory); }
    /// Throws also for an error of any kernel that ran before.
    void finish() const {
      detail::device::cuda_check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
    }
  };

  /// A point in a stream's work; copies share one CUDA event.
  class event {
   public:
    event() = default;
    explicit event(cudaStream_t s) {
      cudaEvent_t raw = nullptr;
      detail::device::cuda_check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming),
                                 "cudaEventCreateWithFlags");
      handle_ = {raw, [](cudaEvent_t e) { cudaEventDestroy(e); }};
      detail::device::cuda_check(cudaEventRecord(raw, s), "cudaEventRecord");
    }
    [[nodiscard]] cudaEvent_t get() const { return handle_.get(); }

   private:
    std::shared_ptr<std::remove_pointer_t<cudaEvent_t>> handle_;
  };

  /// An instantiated CUDA graph; copies share it.
  class graph {
   public:
    graph() = default;
    explicit graph(cudaGraph_t captured) {
      cudaGraphExec_t raw = nullptr;
      detail::device::cuda_check(cudaGraphInstantiate(&raw, captured, 0), "cudaGraphInstantiate");
      handle_ = {raw, [](cudaGraphExec_t g) { cudaGraphExecDestroy(g); }};
    }
    [[nodiscard]] cudaGraphExec_t get() const { return handle_.get(); }

   private:
    std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>> handle_;
  };

  /// The GPU of the launcher's local rank (device/local_rank.hpp); outside of launchers the thread's
  /// current one: 0, unless the program has set another.
  cuda() : cuda(current()) {}
  explicit cuda(int ordinal)
      : ordinal_(ordinal), streams_(std::make_shared<detail::device::cuda_stream_pool>()) {
    int count = 0;  // not written where there is no driver
    detail::device::cuda_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (ordinal < 0 || ordinal >= count)
      throw error(concat("cuda: no GPU ", ordinal, ": this machine has GPUs 0 to ", count - 1));
    use();
    // The pool keeps released memory: by default every cudaStreamSynchronize returns it to the
    // driver.
    cudaMemPool_t pool = nullptr;
    std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
    detail::device::cuda_check(cudaDeviceGetDefaultMemPool(&pool, ordinal),
                               "cudaDeviceGetDefaultMemPool");
    detail::device::cuda_check(
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
        "cudaMemPoolSetAttribute");
  }

  [[nodiscard]] int ordinal() const { return ordinal_; }
  /// "GPU 1 (NVIDIA H200)"
  [[nodiscard]] std::string describe() const {
    cudaDeviceProp card{};
    detail::device::cuda_check(cudaGetDeviceProperties(&card, ordinal_), "cudaGetDeviceProperties");
    return detail::device::describe_gpu(ordinal_, card.name, visible());
  }
  [[nodiscard]] stream make_stream() const {
    use();
    return {streams_->acquire()};
  }
  /// Returns s for a later make_stream; submitted work still completes.
  void close_stream(stream s) const noexcept { streams_->recycle(s.handle); }
  [[nodiscard]] void* allocate(std::size_t size) const {
    use();
    void* memory = nullptr;
    if (size != 0)
      detail::device::cuda_check(cudaMalloc(&memory, size),
                                 detail::device::describe_call("cudaMalloc", size));
    return memory;
  }
  void release(void* memory) const noexcept { cudaFree(memory); }
  /// Page-locked host memory.
  [[nodiscard]] void* pin(std::size_t size) const {
    use();
    void* memory = nullptr;
    if (size != 0)
      detail::device::cuda_check(cudaMallocHost(&memory, size),
                                 detail::device::describe_call("cudaMallocHost", size));
    return memory;
  }
  void unpin(void* memory) const noexcept { cudaFreeHost(memory); }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0)
      detail::device::cuda_check(cudaMemsetAsync(out, 0, size, s.handle),
                                 detail::device::describe_call("cudaMemsetAsync", size));
  }
  [[nodiscard]] event record(stream s) const {
    use();
    return event(s.handle);
  }
  void await(stream s, const event& e) const {
    use();
    if (e.get() != nullptr)
      detail::device::cuda_check(cudaStreamWaitEvent(s.handle, e.get(), 0), "cudaStreamWaitEvent");
  }
  void finish(stream s) const { s.finish(); }

  /// Captures in thread-local mode: other ranks' threads may allocate meanwhile.
  template <class F>
  [[nodiscard]] graph capture(stream s, const F& f) const {
    use();
    detail::device::cuda_check(cudaStreamBeginCapture(s.handle, cudaStreamCaptureModeThreadLocal),
                               "cudaStreamBeginCapture");
    const auto end = [&] {
      cudaGraph_t raw = nullptr;
      const cudaError_t status = cudaStreamEndCapture(s.handle, &raw);
      return std::pair(captured_graph(raw, &cudaGraphDestroy), status);
    };
    try {
      f();
    } catch (...) {
      (void)end();
      (void)cudaGetLastError();  // the capture's own error
      throw;
    }
    const auto [captured, status] = end();
    detail::device::cuda_check(status, "cudaStreamEndCapture");
    return graph(captured.get());
  }
  void replay(const graph& captured, stream s) const {
    detail::device::cuda_check(cudaGraphLaunch(captured.get(), s.handle), "cudaGraphLaunch");
  }

 private:
  using captured_graph =
      std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)>;

  // Without a GPU the delegated constructor throws.
  static int visible() {
    int gpus = 0;
    return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
  }
  static int current() {
    const auto of_thread = [] {
      int ordinal = 0;
      return cudaGetDevice(&ordinal) == cudaSuccess ? ordinal : 0;
    };
    return detail::device::default_ordinal(visible, of_thread);
  }
  void use() const { detail::device::cuda_check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  int ordinal_;
  std::shared_ptr<detail::device::cuda_stream_pool> streams_;
};
static_assert(detail::device::PinnedAllocator<cuda> && detail::device::GraphCapture<cuda> &&
              GpuStream<cuda::stream>);

/// The same class: in a program with `using namespace cordee`, `cuda` is ambiguous with the
/// namespace of CUDA's C++ library, which CUB includes.
using gpu = cuda;

}  // namespace cordee::inline CORDEE_ABI
