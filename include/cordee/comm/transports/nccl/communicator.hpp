// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A nonblocking NCCL communicator: its handle, and the calls that end it.
//
// A nonblocking call may return before it has enqueued its work, so after each one the caller polls
// is_idle(), also while a stream is captured: the collective is in the graph when the state is
// ncclSuccess. NCCL's guide lets all operations be captured, with no exception for nonblocking
// communicators ("Using NCCL with CUDA Graphs", 2.30), and requires that their state be
// ncclSuccess before further calls of CUDA ("Nonblocking Group Operation"). NCCL notes the graph in
// the call and launches from a thread of its own (ncclPlannerSetCapturingGraph in src/enqueue.cc,
// ncclGroupEndInternal in src/group.cc, 2.30), which thread-local capture (device/cuda.cuh)
// permits; the guide of 2.12 names that mode for ranks as threads ("Capture modes"). The first
// steps, which are not captured, make the connections. All of this is read, not run.
//
// ncclCommAbort ends what is in flight first, and then blocks until the last CUDA graph that has
// captured a collective is destroyed; where one has, it runs on a thread, so that the exception
// which the abort belongs to can destroy the graph.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cordee/comm/transports/nccl/memory.hpp>
#include <cordee/comm/transports/nccl/status.hpp>
#include <cordee/comm/transports/number_range.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
inline ncclResult_t nccl_register(ncclComm_t comm, void* data, std::size_t size, void** handle) {
  return ncclCommRegister(comm, data, size, handle);
}
inline ncclResult_t nccl_deregister(ncclComm_t comm, void* handle) {
  return ncclCommDeregister(comm, handle);
}
#else
inline ncclResult_t nccl_register(ncclComm_t, void*, std::size_t, void**) { return ncclSuccess; }
inline ncclResult_t nccl_deregister(ncclComm_t, void*) { return ncclSuccess; }
#endif

/// n elements at x in chunks of one length, of which rank r owns the r-th, and the rest, which is
/// the last rank's (equal_range).
struct nccl_chunks {
  nccl_chunks(void* x, std::size_t n, ncclDataType_t element, int rank, int ranks)
      : chunk_size(equal_chunk(n, ranks)),
        rest_size(n - chunk_size * static_cast<std::size_t>(ranks)),
        last_rank(ranks - 1),
        type(element) {
    const std::size_t chunk_bytes = chunk_size * (type == ncclFloat64 ? 8 : 4);
    all = static_cast<std::byte*>(x);
    own = all + static_cast<std::size_t>(rank) * chunk_bytes;
    rest = all + static_cast<std::size_t>(ranks) * chunk_bytes;
  }

  std::byte *all, *own, *rest;        // where they begin
  std::size_t chunk_size, rest_size;  // elements
  int last_rank;
  ncclDataType_t type;
};

class nccl_communicator {
 public:
  nccl_communicator() = default;
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;
  /// Blocks until no graph that has captured a collective is left; then frees all memory.
  ~nccl_communicator() {
    abort();
    if (aborting_.joinable()) aborting_.join();
  }

  /// Collective, with the same id on every rank; complete when is_idle().
  void initialize(int ranks, int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    nccl_check(ncclCommInitRankConfig(&comm_, ranks, id, rank, &config), "ncclCommInitRankConfig");
  }

  [[nodiscard]] bool exists() const { return comm_ != nullptr; }
  /// Null after abort() or destroy().
  [[nodiscard]] ncclComm_t get() const { return comm_; }

  /// Whether a graph has, or had, one of its collectives.
  [[nodiscard]] bool has_captured() const { return captured_; }
  /// ncclSuccess: everything that was called is on its stream. ncclInProgress: not yet. Otherwise
  /// the error of an operation of this rank or of another.
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    return state;
  }
  void check(ncclResult_t status, std::string_view call) const { nccl_check(status, call, comm_); }

  /// f(check) between ncclGroupStart and ncclGroupEnd, which is called whatever fails. `calls`: the
  /// calls that f makes.
  template <class F>
  void group(const char* calls, const F& f) const {
    check(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t first = ncclSuccess;
    f([&](ncclResult_t status) {
      if (first == ncclSuccess && status != ncclInProgress) first = status;
    });
    const ncclResult_t last = ncclGroupEnd();
    check(first, calls);
    check(last, "ncclGroupEnd");
  }
  void all_reduce(void* x, std::size_t n, ncclDataType_t type, ncclRedOp_t reduction,
                  cudaStream_t s) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    device::cuda_check(cudaStreamIsCapturing(s, &status), "cudaStreamIsCapturing");
    captured_ = captured_ || status != cudaStreamCaptureStatusNone;
    check(ncclAllReduce(x, x, n, type, reduction, comm_, s), "ncclAllReduce");
  }

  /// Each rank's elements <- their sum or average, in place.
  void reduce_scatter(const nccl_chunks& c, ncclRedOp_t reduction, cudaStream_t s) const {
    group("ncclReduceScatter or ncclReduce", [&](const auto& check_call) {
      if (c.chunk_size != 0)
        check_call(ncclReduceScatter(c.all, c.own, c.chunk_size, c.type, reduction, comm_, s));
      if (c.rest_size != 0)
        check_call(
            ncclReduce(c.rest, c.rest, c.rest_size, c.type, reduction, c.last_rank, comm_, s));
    });
  }
  /// All elements <- each rank's, in place.
  void all_gather(const nccl_chunks& c, cudaStream_t s) const {
    group("ncclAllGather or ncclBroadcast", [&](const auto& check_call) {
      if (c.chunk_size != 0)
        check_call(ncclAllGather(c.own, c.all, c.chunk_size, c.type, comm_, s));
      if (c.rest_size != 0)
        check_call(ncclBroadcast(c.rest, c.rest, c.rest_size, c.type, c.last_rank, comm_, s));
    });
  }

  /// See nccl_memory.
  [[nodiscard]] void* allocate(std::size_t size) { return memory_.allocate(comm_, size); }
  /// Requires that the memory is not registered. An abort on a thread may still use it: then it is
  /// freed behind that. It is kept once a graph has captured a collective: NCCL registers what is
  /// captured by itself, and drops that registration not with the graph but at a later collective
  /// (persistentDestructor in src/enqueue.cc, groupLaunch in src/group.cc, 2.30). New memory at
  /// the address of freed memory would be transferred by the peers' mappings of the old
  /// (ncclRegister in src/register/register.cc, ipcRegisterBuffer in src/transport/p2p.cc).
  void release(void* memory) noexcept {
    if (!aborting_.joinable()) memory_.release(memory, captured_);
  }
  /// A handle; null where this NCCL registers no memory, and after abort().
  [[nodiscard]] void* register_memory(void* data, std::size_t size) const {
    void* handle = nullptr;
    if (comm_ == nullptr) return handle;
    check(nccl_register(comm_, data, size, &handle), "ncclCommRegister");
    return handle;
  }
  /// Blocks until the GPU is idle: NCCL unmaps at once what its kernels read. Nothing after
  /// abort(), which has released it.
  void deregister(void* handle) const noexcept {
    if (comm_ == nullptr) return;
    (void)nccl_memory::await_gpu();
    nccl_deregister(comm_, handle);
  }

  /// Collective; complete when is_idle().
  void finalize() const { check(ncclCommFinalize(comm_), "ncclCommFinalize"); }
  /// Requires a complete finalize(), and that no captured collective is left.
  void destroy() { nccl_check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy"); }
  /// Ends what is in flight on the GPU.
  void abort() noexcept {
    ncclComm_t const comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) return;
    if (captured_)
      aborting_ = core::thread(abort_handle, comm);
    else
      ncclCommAbort(comm);
  }

 private:
  static void* abort_handle(void* comm) {
    ncclCommAbort(static_cast<ncclComm_t>(comm));
    return nullptr;
  }

  ncclComm_t comm_ = nullptr;
  bool captured_ = false;
  nccl_memory memory_;
  core::thread aborting_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
