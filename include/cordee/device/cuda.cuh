// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One GPU as a device: its memory, streams that launch kernels, events, graphs.
//
// Every call's status is checked: an error names the call, CUDA's message and the remedy. There is
// no fall-back: without a GPU, or without memory on it, a cordee::error is thrown. Programs link
// the CUDA runtime and never the driver library.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cuda_runtime.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/adl_base.hpp>
#include <cordee/device/cuda_kernel.cuh>
#include <cordee/device/cuda_memory.hpp>
#include <cordee/device/cuda_pool_access.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/cuda_stream_pool.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/graph_capture.hpp>
#include <cordee/device/local_rank.hpp>
#include <cordee/device/pinned.hpp>

namespace cordee::inline CORDEE_ABI {

/// One GPU as a device; several ranks may share one. `make_stream`, `allocate`, `pin`, `record`,
/// `await` and `capture` make it the calling thread's current device.
class cuda {
 public:
  static constexpr std::string_view name = "cuda";  ///< Name in logs and checkpoints.
  static constexpr bool host_memory = false;        ///< Whether host code can read the memory.

  /// A CUDA stream with temporary memory. Its work is asynchronous; a call throws error for what
  /// CUDA rejects, while an error in a kernel is often thrown only by a later call.
  struct stream : detail::ops::adl_base {
    cudaStream_t handle;  ///< CUDA's stream; null: the default stream.
    /// Its temporary memory; null if the stream is not from make_stream.
    detail::device::cuda_arena* temporary;

    /// Wraps a CUDA stream.
    stream(cudaStream_t s = nullptr, detail::device::cuda_arena* arena = nullptr)
        : handle(s), temporary(arena) {}
    /// Launches a kernel (device/gpu_kernel.hpp) with the given number of thread blocks; none for
    /// 0.
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      if (blocks != 0) detail::device::launch_cuda_kernel(blocks, kernel, handle);
    }
    /// Temporary memory in stream order: from the stream's stack or, if the stream is not from
    /// make_stream, from the GPU's pool; null for 0 bytes. @throws error if memory is exhausted.
    [[nodiscard]] void* allocate(std::size_t size) const {
      return temporary != nullptr ? temporary->allocate(size)
                                  : detail::device::cuda_stream_memory{handle}.allocate(size);
    }
    /// Releases memory from `allocate` in stream order.
    void release(void* memory) const noexcept {
      if (temporary != nullptr)
        temporary->release(memory);
      else
        detail::device::cuda_stream_memory{handle}.release(memory);
    }
    /// Bytes of the stream's stack. While this is unchanged, the temporary memory of captured
    /// launches is at the same addresses.
    [[nodiscard]] std::size_t temporary_bytes() const {
      return temporary != nullptr ? temporary->capacity() : 0;
    }
    /// Counters for `is_last` of the next kernel, see GpuStream. @throws usage_error for a stream
    /// that is not from make_stream.
    [[nodiscard]] unsigned* counters(std::size_t n) const {
      expects(temporary != nullptr,
              "cuda: a stream of a cudaStream_t has no counters; pass one of make_stream");
      return temporary->counters(n);
    }
    /// Copies `size` bytes between host and GPU memory in stream order. Pageable host memory has
    /// been read, or written, when this returns.
    void copy(void* out, const void* in, std::size_t size) const {
      if (size != 0)
        detail::device::cuda_check(cudaMemcpyAsync(out, in, size, cudaMemcpyDefault, handle),
                                   detail::device::describe_call("cudaMemcpyAsync", size));
    }
    /// Page-locked host memory, for transports that stage.
    [[nodiscard]] static void* pin(std::size_t size) {
      void* memory = nullptr;
      detail::device::cuda_check(cudaMallocHost(&memory, size),
                                 detail::device::describe_call("cudaMallocHost", size));
      return memory;
    }
    /// Frees memory from `pin`.
    static void unpin(void* memory) noexcept { cudaFreeHost(memory); }
    /// Blocks the host until the stream's work is complete. Also throws for an error of any kernel
    /// that ran before.
    void finish() const {
      detail::device::cuda_check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
    }
  };

  /// A point in a stream's work; copies share one CUDA event.
  class event {
   public:
    event() = default;
    /// The point after all work submitted to s.
    explicit event(cudaStream_t s, unsigned flags = cudaEventDisableTiming) {
      cudaEvent_t raw = nullptr;
      detail::device::cuda_check(cudaEventCreateWithFlags(&raw, flags), "cudaEventCreateWithFlags");
      handle_ = {raw, [](cudaEvent_t e) { cudaEventDestroy(e); }};
      detail::device::cuda_check(cudaEventRecord(raw, s), "cudaEventRecord");
    }
    /// The CUDA event; null for an `event{}`, which counts as complete.
    [[nodiscard]] cudaEvent_t get() const { return handle_.get(); }

   private:
    std::shared_ptr<std::remove_pointer_t<cudaEvent_t>> handle_;
  };

  /// An instantiated CUDA graph; copies share it.
  class graph {
   public:
    graph() = default;
    /// Instantiates a captured graph.
    explicit graph(cudaGraph_t captured) {
      cudaGraphExec_t raw = nullptr;
      detail::device::cuda_check(cudaGraphInstantiate(&raw, captured, 0), "cudaGraphInstantiate");
      handle_ = {raw, [](cudaGraphExec_t g) { cudaGraphExecDestroy(g); }};
    }
    /// The CUDA graph; null for a `graph{}`.
    [[nodiscard]] cudaGraphExec_t get() const { return handle_.get(); }

   private:
    std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>> handle_;
  };

  /// The GPU of the launcher's local rank (device/local_rank.hpp); without a launcher, the thread's
  /// current one: 0, unless the program has set another.
  cuda() : cuda(current()) {}
  /// GPU `ordinal` among the visible ones. Its memory pool keeps released memory, for the whole
  /// process. @throws error if there is no such GPU.
  explicit cuda(int ordinal)
      : ordinal_(ordinal), streams_(std::make_shared<detail::device::cuda_stream_pool>()) {
    int count = 0;  // not written where there is no driver
    detail::device::cuda_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (ordinal < 0 || ordinal >= count)
      throw error(concat("cuda: no GPU ", ordinal, ": this machine has GPUs 0 to ", count - 1));
    use();
    // The pool keeps released memory: by default every cudaStreamSynchronize returns it to the
    // driver. An allocation that fails trims it (device/cuda_memory.hpp).
    cudaMemPool_t pool = nullptr;
    std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
    detail::device::cuda_check(cudaDeviceGetDefaultMemPool(&pool, ordinal),
                               "cudaDeviceGetDefaultMemPool");
    detail::device::cuda_check(
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
        "cudaMemPoolSetAttribute");
    if (const auto rank = detail::device::local_rank_scope::current())
      detail::device::share_pool(ordinal, rank->peers(count));
  }

  /// Ordinal of the GPU among the visible ones.
  [[nodiscard]] int ordinal() const { return ordinal_; }
  /// One line for logs: "GPU 1 (NVIDIA H200)".
  [[nodiscard]] std::string describe() const {
    cudaDeviceProp card{};
    detail::device::cuda_check(cudaGetDeviceProperties(&card, ordinal_), "cudaGetDeviceProperties");
    return detail::device::describe_gpu(ordinal_, card.name, visible());
  }
  /// A stream that does not wait for the default stream: an idle one of this device, or a new one.
  [[nodiscard]] stream make_stream() const {
    return acquire(detail::device::stream_priority::normal);
  }
  /// A stream whose kernels are scheduled before those of make_stream's.
  [[nodiscard]] stream make_high_priority_stream() const {
    return acquire(detail::device::stream_priority::high);
  }
  /// Returns s for reuse by make_stream; submitted work still completes.
  void close_stream(stream s) const noexcept { streams_->recycle(s.handle); }
  /// GPU memory, uninitialized; null for 0 bytes. @throws error, stating the free bytes, if memory
  /// is exhausted.
  [[nodiscard]] void* allocate(std::size_t size) const {
    use();
    return detail::device::allocate_or_trim(
        "cudaMalloc", size, true, [&](void** memory) { return cudaMalloc(memory, size); });
  }
  /// Frees memory from `allocate`.
  void release(void* memory) const noexcept { cudaFree(memory); }
  /// Whether `memory` is on this GPU, or managed by CUDA, which moves it there.
  [[nodiscard]] bool owns(const void* memory) const {
    cudaPointerAttributes found{};
    detail::device::cuda_check(cudaPointerGetAttributes(&found, memory),
                               "cudaPointerGetAttributes");
    return found.type == cudaMemoryTypeManaged ||
           (found.type == cudaMemoryTypeDevice && found.device == ordinal_);
  }
  /// Bytes that could be allocated, and those `s` holds for temporary memory. Blocks the host until
  /// the GPU is idle; empty while `s` is being captured.
  [[nodiscard]] std::optional<std::size_t> available(stream s) const {
    use();
    if (!detail::device::cuda_stream_memory{s.handle}.may_grow()) return {};
    return detail::device::free_cuda_memory() + s.temporary_bytes();
  }
  /// Page-locked host memory; null for 0 bytes. @throws error if memory is exhausted.
  [[nodiscard]] void* pin(std::size_t size) const {
    use();
    return size != 0 ? stream::pin(size) : nullptr;
  }
  /// Frees memory from `pin`.
  void unpin(void* memory) const noexcept { cudaFreeHost(memory); }
  /// As stream::copy.
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  /// Sets `size` bytes of GPU memory to zero in stream order.
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0)
      detail::device::cuda_check(cudaMemsetAsync(out, 0, size, s.handle),
                                 detail::device::describe_call("cudaMemsetAsync", size));
  }
  /// The point after all work submitted to s.
  [[nodiscard]] event record(stream s) const {
    use();
    return event(s.handle);
  }
  /// As `record`, an event for `seconds_between`.
  [[nodiscard]] event record_time(stream s) const {
    use();
    return event(s.handle, cudaEventDefault);
  }
  /// GPU seconds between two events of record_time. Requires that both are complete.
  [[nodiscard]] double seconds_between(const event& begin, const event& end) const {
    float milliseconds = 0;
    detail::device::cuda_check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()),
                               "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }
  /// Makes later work of s wait for e; the host does not wait.
  void await(stream s, const event& e) const {
    use();
    if (e.get() != nullptr)
      detail::device::cuda_check(cudaStreamWaitEvent(s.handle, e.get(), 0), "cudaStreamWaitEvent");
  }
  /// As stream::finish.
  void finish(stream s) const { s.finish(); }
  /// Whether the work before `e` is complete.
  [[nodiscard]] bool is_complete(const event& e) const {
    const cudaError_t status = e.get() == nullptr ? cudaSuccess : cudaEventQuery(e.get());
    if (status != cudaErrorNotReady) detail::device::cuda_check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  /// Blocks the host until the work before `e` is complete.
  void wait(const event& e) const {
    if (e.get() == nullptr || cudaEventQuery(e.get()) == cudaSuccess) return;
    detail::device::cuda_check(cudaEventSynchronize(e.get()), "cudaEventSynchronize");
  }

  /// Captures what f() submits to s as a graph, without running it. Thread-local mode: other ranks'
  /// threads may allocate meanwhile. Throws what f throws, or error.
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
  /// Launches the graph in stream order.
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
  [[nodiscard]] stream acquire(detail::device::stream_priority priority) const {
    use();
    const auto s = streams_->acquire(priority);
    return {s.handle, s.temporary};
  }
  void use() const { detail::device::cuda_check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  int ordinal_;
  std::shared_ptr<detail::device::cuda_stream_pool> streams_;
};
static_assert(detail::device::PinnedAllocator<cuda> && detail::device::GraphCapture<cuda> &&
              GpuStream<cuda::stream>);

namespace detail::device {
/// See list_visible_gpus. Empty without a driver.
[[gnu::cold]] inline std::string visible_cuda_gpus() {
  std::string ids;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  for (int k = 0; k < count; ++k) {
    char id[32] = {};
    cuda_check(cudaDeviceGetPCIBusId(id, sizeof id, k), "cudaDeviceGetPCIBusId");
    ids += concat(id, " ");
  }
  (void)cudaGetLastError();  // of the count: a later launch tests it
  return ids;
}
inline const bool lists_visible_gpus = (list_visible_gpus = &visible_cuda_gpus, true);
}  // namespace detail::device

/// Another name: in a program with `using namespace cordee`, `cuda` is ambiguous with the namespace
/// of CUDA's C++ library, which Thrust includes.
using gpu = cuda;

}  // namespace cordee::inline CORDEE_ABI
