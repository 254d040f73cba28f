// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One GPU as a device: its memory, streams that run grids of blocks, events between them.
//
// Every call's status is checked; an error names the call, what CUDA says, and the remedy. There is
// no fall-back: without a GPU, or without memory on it, a cordee::error is thrown. Programs link
// the CUDA runtime and never the driver's library.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <cub/block/block_reduce.cuh>
#include <cuda_runtime.h>

#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/core/text.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/cuda_warp.cuh>
#include <cordee/device/grid.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/device/records.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A block as the hardware runs it (device/grid.hpp's Block, and device/warp.hpp's of whole warps).
template <int Threads>
class cuda_block : public cuda_warp {
 public:
  CORDEE_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  CORDEE_DEVICE std::size_t index() const { return blockIdx.x; }
  CORDEE_DEVICE std::size_t blocks() const { return gridDim.x; }
  CORDEE_DEVICE void sync() { __syncthreads(); }

  template <class T>
  CORDEE_DEVICE T* shared(std::size_t n) {
    extern __shared__ __align__(16) unsigned char memory[];
    const std::size_t at = used_;
    used_ += (n * sizeof(T) + 15) / 16 * 16;
    return reinterpret_cast<T*>(memory + at);
  }
  template <class T>
  CORDEE_DEVICE T sum(T x) {
    using reduce = cub::BlockReduce<T, Threads>;
    __shared__ typename reduce::TempStorage work;
    __shared__ T total;
    const T whole = reduce(work).Sum(x);
    if (threadIdx.x == 0) total = whole;
    __syncthreads();
    const T all = total;
    __syncthreads();  // before the next sum writes
    return all;
  }

 private:
  std::size_t used_ = 0;
};

template <class Body>
__global__ void __launch_bounds__(Body::threads) run_body(const __grid_constant__ Body body) {
  cuda_block<Body::threads> block;
  body(block);
}

/// Streams that a device has opened; they end with its last copy.
class cuda_streams {
 public:
  cuda_streams() = default;
  cuda_streams(const cuda_streams&) = delete;
  cuda_streams& operator=(const cuda_streams&) = delete;
  ~cuda_streams() {
    for (const cudaStream_t s : all_) cudaStreamDestroy(s);
  }
  cudaStream_t open() {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      const cudaStream_t s = idle_.back();
      idle_.pop_back();
      return s;
    }
    cudaStream_t s = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    all_.push_back(s);
    idle_.reserve(all_.size());  // so that closing one never fails
    return s;
  }
  void close(cudaStream_t s) noexcept {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(s);
  }

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> all_, idle_;
};

}  // namespace detail

/// The GPU `ordinal`; several ranks may share one. It is the current one of every thread that
/// opened a stream, recorded, awaited or allocated here.
class cuda {
 public:
  static constexpr std::string_view name = "cuda";
  static constexpr bool host_memory = false;

  struct stream {
    cudaStream_t handle = nullptr;

    template <class Body>
    void launch(std::size_t blocks, const Body& body) const {
      if (blocks == 0) return;
      const std::size_t shared = shared_bytes(body);
      constexpr std::size_t usual = 48 * 1024;  // more must be asked for
      if (shared > usual)
        detail::cuda_check(cudaFuncSetAttribute(detail::run_body<Body>,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(shared)),
                           text("cudaFuncSetAttribute of ", shared, " bytes of shared memory"));
      detail::run_body<Body>
          <<<static_cast<unsigned>(blocks), Body::threads, shared, handle>>>(body);
      detail::cuda_check(cudaGetLastError(), "launch of a kernel");
    }
    [[nodiscard]] void* lend(std::size_t size) const {
      void* memory = nullptr;
      if (size != 0)
        detail::cuda_check(cudaMallocAsync(&memory, size, handle),
                           text("cudaMallocAsync of ", grouped(size), " bytes"));
      return memory;
    }
    void take_back(void* memory) const noexcept {
      if (memory != nullptr) cudaFreeAsync(memory, handle);
    }
    /// Pageable memory of the host is read, or written, before this returns.
    void copy(void* out, const void* in, std::size_t size) const {
      if (size != 0)
        detail::cuda_check(cudaMemcpyAsync(out, in, size, cudaMemcpyDefault, handle),
                           text("cudaMemcpyAsync of ", grouped(size), " bytes"));
    }
    /// Also where an error of a kernel that ran long ago comes to light.
    void finish() const {
      detail::cuda_check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
    }
  };

  /// A place in a stream's work; shared, and destroyed with its last copy.
  class event {
   public:
    event() = default;
    explicit event(cudaStream_t s) {
      cudaEvent_t raw = nullptr;
      detail::cuda_check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming),
                         "cudaEventCreateWithFlags");
      handle_ = {raw, [](cudaEvent_t e) { cudaEventDestroy(e); }};
      detail::cuda_check(cudaEventRecord(raw, s), "cudaEventRecord");
    }
    [[nodiscard]] cudaEvent_t get() const { return handle_.get(); }

   private:
    std::shared_ptr<std::remove_pointer_t<cudaEvent_t>> handle_;
  };

  /// Work as a graph that is ready to be launched; shared, and destroyed with its last copy.
  class recording {
   public:
    recording() = default;
    explicit recording(cudaGraph_t graph) {
      cudaGraphExec_t raw = nullptr;
      detail::cuda_check(cudaGraphInstantiate(&raw, graph, 0), "cudaGraphInstantiate");
      handle_ = {raw, [](cudaGraphExec_t g) { cudaGraphExecDestroy(g); }};
    }
    [[nodiscard]] cudaGraphExec_t get() const { return handle_.get(); }

   private:
    std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>> handle_;
  };

  /// This thread's current one: 0, unless nccl::launch or the program has chosen another.
  cuda() : cuda(current()) {}
  explicit cuda(int ordinal)
      : ordinal_(ordinal), streams_(std::make_shared<detail::cuda_streams>()) {
    int count = 0;  // left untouched where there is no driver
    detail::cuda_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (ordinal < 0 || ordinal >= count)
      throw error(text("cuda: there is no GPU ", ordinal, " here: they are 0 to ", count - 1));
    use();
    // What streams were lent stays theirs: returned at every finish it would be asked for anew.
    cudaMemPool_t lending = nullptr;
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    detail::cuda_check(cudaDeviceGetDefaultMemPool(&lending, ordinal),
                       "cudaDeviceGetDefaultMemPool");
    detail::cuda_check(cudaMemPoolSetAttribute(lending, cudaMemPoolAttrReleaseThreshold, &keep),
                       "cudaMemPoolSetAttribute");
  }

  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] stream open() const {
    use();
    return {streams_->open()};
  }
  /// For whoever opens one next; what it has to do it still does.
  void close(stream s) const noexcept { streams_->close(s.handle); }
  [[nodiscard]] void* allocate(std::size_t size) const {
    use();
    void* memory = nullptr;
    if (size != 0)
      detail::cuda_check(cudaMalloc(&memory, size),
                         text("cudaMalloc of ", grouped(size), " bytes"));
    return memory;
  }
  void release(void* memory) const noexcept { cudaFree(memory); }
  /// Memory of the host that stays in its pages.
  [[nodiscard]] void* pin(std::size_t size) const {
    use();
    void* memory = nullptr;
    if (size != 0)
      detail::cuda_check(cudaMallocHost(&memory, size),
                         text("cudaMallocHost of ", grouped(size), " bytes"));
    return memory;
  }
  void unpin(void* memory) const noexcept { cudaFreeHost(memory); }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0)
      detail::cuda_check(cudaMemsetAsync(out, 0, size, s.handle),
                         text("cudaMemsetAsync of ", grouped(size), " bytes"));
  }
  [[nodiscard]] event record(stream s) const {
    use();
    return event(s.handle);
  }
  void await(stream s, const event& e) const {
    use();
    if (e.get() != nullptr)
      detail::cuda_check(cudaStreamWaitEvent(s.handle, e.get(), 0), "cudaStreamWaitEvent");
  }
  void finish(stream s) const { s.finish(); }

  /// A capture of this thread's alone: other ranks may allocate meanwhile.
  template <class F>
  [[nodiscard]] recording record_work(stream s, const F& f) const {
    use();
    detail::cuda_check(cudaStreamBeginCapture(s.handle, cudaStreamCaptureModeThreadLocal),
                       "cudaStreamBeginCapture");
    const auto end = [&] {
      cudaGraph_t raw = nullptr;
      const cudaError_t status = cudaStreamEndCapture(s.handle, &raw);
      return std::pair(graph(raw, &cudaGraphDestroy), status);
    };
    try {
      f();
    } catch (...) {
      (void)end();
      (void)cudaGetLastError();  // that the capture is cut short, which is no news
      throw;
    }
    const auto [whole, status] = end();
    detail::cuda_check(status, "cudaStreamEndCapture");
    return recording(whole.get());
  }
  void replay(const recording& what, stream s) const {
    detail::cuda_check(cudaGraphLaunch(what.get(), s.handle), "cudaGraphLaunch");
  }

 private:
  using graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)>;

  // Where there is none the other constructor says so.
  static int current() {
    int ordinal = 0;
    return cudaGetDevice(&ordinal) == cudaSuccess ? ordinal : 0;
  }
  void use() const { detail::cuda_check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  int ordinal_;
  std::shared_ptr<detail::cuda_streams> streams_;
};
static_assert(Pins<cuda> && Records<cuda> && GridStream<cuda::stream>);

/// The same, for programs that say `using namespace cordee`: there `cuda` would also mean the
/// namespace of CUDA's own C++ library, which CUB brings with it.
using gpu = cuda;

}  // namespace cordee::inline CORDEE_ABI
