// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One context over NCCL: a nonblocking communicator, and a wait that polls for failures.
//
// NCCL compares no sizes and waits forever. So each message is preceded, in the same group, by its
// size; the host compares sizes when all has arrived, and during a long wait. A wait polls the
// communicator and an event of the stream; when the run has failed, or at the deadline,
// ncclCommAbort ends the operation, and an error names the ranks that it waited for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cordee/comm/error_context.hpp>
#include <cordee/comm/nccl/bootstrap_client.hpp>
#include <cordee/comm/nccl/resources.hpp>
#include <cordee/comm/nccl/status.hpp>
#include <cordee/comm/poll_until.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// One message of an exchange.
struct nccl_transfer {
  int peer;
  void* data;
  std::size_t size;
};
using nccl_transfers = std::span<const nccl_transfer>;

/// Used by one thread at a time.
class nccl_context {
 public:
  /// Collective: every rank, with the same id.
  nccl_context(bootstrap_client& control, const rank_assignment& self, int context, int device,
               std::chrono::milliseconds deadline, const ncclUniqueId& id)
      : control_(control), self_(self), context_(context), device_(device), deadline_(deadline) {
    try {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      nccl_check(ncclCommInitRankConfig(&comm_, self.size, id, self.rank, &config),
                 "ncclCommInitRankConfig");
      await([this] { return is_idle("ncclCommInitRankConfig"); }, {.collective = "start"});
    } catch (...) {
      abort_comm();
      throw;
    }
  }
  nccl_context(const nccl_context&) = delete;
  nccl_context& operator=(const nccl_context&) = delete;
  ~nccl_context() { abort_comm(); }

  /// A stream of this context; makes its GPU the calling thread's current one.
  [[nodiscard]] cudaStream_t staging_stream() const {
    device::cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    return cuda_.staging;
  }
  /// GPU memory for one transfer at a time on that stream; the same for each.
  [[nodiscard]] std::byte* staging_memory(std::size_t size) { return staging_.reserve(size); }

  /// Transfers between GPU memories, in the order of the stream. Blocks until all are complete, or
  /// throws.
  void exchange(nccl_transfers receives, nccl_transfers sends, cudaStream_t s) {
    if (receives.empty() && sends.empty()) return;
    guarded(s, [&] {
      const std::size_t n = receives.size() + sends.size();
      sizes_.reserve(2 * n);
      std::fill_n(sizes_.data(), 2 * n, unknown);
      for (std::size_t i = 0; i < sends.size(); ++i)
        sizes_.data()[receives.size() + i] = sends[i].size;
      auto* const sizes =
          reinterpret_cast<std::uint64_t*>(gpu_sizes_.reserve(n * sizeof(std::uint64_t)));
      copy(sizes, sizes_.data(), n, s);
      device::cuda_check(cudaEventRecord(cuda_.started, s), "cudaEventRecord");
      grouped([&](const auto& check) {
        for (std::size_t i = 0; i < n; ++i) {
          const bool receive = i < receives.size();
          const nccl_transfer& t = receive ? receives[i] : sends[i - receives.size()];
          const auto post = [&](void* data, std::size_t count, ncclDataType_t type) {
            if (count != 0)
              check(receive ? ncclRecv(data, count, type, t.peer, comm_, s)
                            : ncclSend(data, count, type, t.peer, comm_, s));
          };
          post(sizes + i, 1, ncclUint64);
          post(t.data, t.size, ncclUint8);
        }
      });
      const operation op{receives, sends, sizes, sizes_.data() + n, cuda_.started};
      await([&] { return is_idle("ncclGroupEnd"); }, op);
      copy(sizes_.data(), sizes, receives.size(), s);
      device::cuda_check(cudaEventRecord(cuda_.completed, s), "cudaEventRecord");
      await([&] { return is_complete(); }, op);
      for (std::size_t i = 0; i < receives.size(); ++i) check_size(receives[i], sizes_.data()[i]);
    });
  }

  /// NCCL's sum or average of n elements over all ranks, in place.
  void all_reduce(void* x, std::size_t n, ncclDataType_t type, ncclRedOp_t reduction,
                  cudaStream_t s) {
    if (n == 0) return;
    guarded(s, [&] {
      device::cuda_check(cudaEventRecord(cuda_.started, s), "cudaEventRecord");
      nccl_check(ncclAllReduce(x, x, n, type, reduction, comm_, s), "ncclAllReduce", comm_);
      const std::string text = concat("contribute ", n, " elements to a mean");
      const operation op{.started = cuda_.started, .collective = text.c_str()};
      await([&] { return is_idle("ncclAllReduce"); }, op);
      device::cuda_check(cudaEventRecord(cuda_.completed, s), "cudaEventRecord");
      await([&] { return is_complete(); }, op);
    });
  }

  /// Collective. Requires that every message has been received.
  void finish() {
    if (comm_ == nullptr) return;
    nccl_check(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
    await([this] { return is_idle("ncclCommFinalize"); }, {.collective = "end"});
    nccl_check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
  }

 private:
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  struct operation {
    nccl_transfers receives{}, sends{};
    const std::uint64_t* sizes = nullptr;  // on the GPU, of receives, then of sends
    std::uint64_t* seen = nullptr;         // the sizes of receives at the last inspection
    cudaEvent_t started = nullptr;         // its time counts from there
    const char* collective = "";           // what every rank does, where there are no transfers
  };

  template <class Ready>
  struct operation_wait {
    nccl_context& context;
    const Ready& is_ready;
    const operation& op;
    bool has_started = op.started == nullptr;

    bool ready() const { return is_ready(); }
    bool started() {
      if (!has_started) has_started = has_passed(op.started);
      return has_started;
    }
    void inspect() const { context.inspect(op); }
    [[nodiscard]] int left_peer() const { return context.left_peer(op); }
    [[nodiscard]] std::string describe() const { return context.describe_pending(op); }
  };

  static void copy(std::uint64_t* to, const std::uint64_t* from, std::size_t n, cudaStream_t s) {
    if (n != 0)
      device::cuda_check(cudaMemcpyAsync(to, from, n * sizeof *from, cudaMemcpyDefault, s),
                         "cudaMemcpyAsync");
  }

  // f(check) between ncclGroupStart and ncclGroupEnd, which is called whatever fails.
  template <class F>
  void grouped(const F& f) {
    nccl_check(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t first = ncclSuccess;
    f([&](ncclResult_t status) {
      if (first == ncclSuccess && status != ncclInProgress) first = status;
    });
    const ncclResult_t last = ncclGroupEnd();
    nccl_check(first, "ncclSend or ncclRecv", comm_);
    nccl_check(last, "ncclGroupEnd", comm_);
  }

  // f(); if it throws, fails the run and ends what is in flight.
  template <class F>
  void guarded(cudaStream_t s, const F& f) {
    if (control_.first_failure.happened() || comm_ == nullptr) throw_aborted();
    device::cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    try {
      f();
    } catch (const std::exception& e) {
      control_.fail(e.what());  // no effect where the exception reports the run's failure
      abort(s);
      throw;
    }
  }

  // Whether the communicator has enqueued on its stream all that it was given.
  bool is_idle(const char* call) {
    ncclResult_t state = ncclSuccess;
    nccl_check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    if (state == ncclInProgress) return false;
    if (state == ncclSuccess) return true;
    await_cause();
    throw_nccl_error(state, concat(call, " on context ", context_), comm_);
  }
  bool is_complete() { return is_idle("a transfer") && has_passed(cuda_.completed); }
  static bool has_passed(cudaEvent_t e) {
    const cudaError_t status = cudaEventQuery(e);
    if (status != cudaErrorNotReady) device::cuda_check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }

  template <class Ready>
  void await(const Ready& ready, const operation& op) {
    operation_wait<Ready> wait{*this, ready, op};
    no_mutex control_locks_itself;
    await_peers(wait, control_, control_locks_itself,
                {.rank = self_.rank,
                 .deadline = deadline_,
                 .option = "nccl::options{.deadline}",
                 .control_after = std::chrono::microseconds(20),
                 .inspect_every = std::chrono::milliseconds(100),
                 .left_grace = std::chrono::seconds(1)});
  }

  [[noreturn, gnu::cold]] void throw_aborted() const {
    throw error(concat("rank ", self_.rank, " aborted: ", control_.first_failure.cause()));
  }
  // NCCL may notice that a peer has ended before its cause, or the end of its connection, arrives
  // here.
  [[gnu::cold]] void await_cause() {
    const auto known = [&] {
      control_.poll();
      return control_.first_failure.happened();
    };
    if (poll_until(known, std::chrono::milliseconds(500), std::chrono::milliseconds(1)))
      throw_aborted();
  }

  // Reads the sizes that have arrived, on a stream that is ordered after nothing. A size may be
  // arriving at this moment, so a wrong one counts when it is the same at the next inspection.
  [[gnu::cold]] void inspect(const operation& op) {
    if (op.sizes == nullptr || !has_passed(op.started)) return;
    const std::vector<std::uint64_t> before(op.seen, op.seen + op.receives.size());
    copy(op.seen, op.sizes, op.receives.size(), cuda_.inspection);
    device::cuda_check(cudaStreamSynchronize(cuda_.inspection), "cudaStreamSynchronize");
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before[i] == op.seen[i] && before[i] != unknown) check_size(op.receives[i], before[i]);
  }
  void check_size(const nccl_transfer& t, std::uint64_t sent) const {
    if (sent == t.size) return;
    throw error(concat("rank ", self_.rank, " expects ", t.size, " bytes from rank ", t.peer,
                       " on context ", context_, ", which sends ", sent,
                       ": the ranks disagree on what they exchange", error_context::suffix()));
  }

  [[nodiscard]] int left_peer(const operation& op) const {
    int left = -1;
    const auto check = [&](int peer) {
      if (peer != self_.rank && control_.has_left(peer)) left = peer;
    };
    for (const auto transfers : {op.receives, op.sends})
      for (const nccl_transfer& t : transfers) check(t.peer);
    for (int peer = 0; *op.collective != '\0' && peer < self_.size; ++peer) check(peer);
    return left;
  }
  // "rank 1 to send 16 bytes, rank 2 to receive 16 bytes on context 0", without receives whose size
  // has arrived.
  [[nodiscard, gnu::cold]] std::string describe_pending(const operation& op) const {
    if (*op.collective != '\0')
      return concat("every rank to ", op.collective, " on context ", context_);
    std::string text;
    const auto add = [&](const nccl_transfer& t, const char* verb) {
      text += concat(text.empty() ? "" : ", ", "rank ", t.peer, verb, t.size, " bytes");
    };
    for (std::size_t i = 0; i < op.receives.size(); ++i)
      if (op.seen[i] == unknown) add(op.receives[i], " to send ");
    for (const nccl_transfer& t : op.sends) add(t, " to receive ");
    return concat(text, " on context ", context_);
  }

  // Ends what is in flight: after this, nothing more is written to the caller's memory.
  [[gnu::cold]] void abort(cudaStream_t s) noexcept {
    abort_comm();
    if (cudaEventRecord(cuda_.completed, s) != cudaSuccess) return;
    poll_until([&] { return cudaEventQuery(cuda_.completed) != cudaErrorNotReady; },
               grace_period(deadline_), std::chrono::microseconds(50));
  }
  void abort_comm() noexcept {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }

  bootstrap_client& control_;
  const rank_assignment self_;
  const int context_, device_;
  const std::chrono::milliseconds deadline_;
  ncclComm_t comm_ = nullptr;
  const stream_set cuda_;
  pinned_sizes sizes_;
  grow_only_memory gpu_sizes_, staging_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
