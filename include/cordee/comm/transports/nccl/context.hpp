// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One context over NCCL: a nonblocking communicator, and waits that poll for failures.
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

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/client.hpp>
#include <cordee/comm/transports/nccl/awaited_operation.hpp>
#include <cordee/comm/transports/nccl/communicator.hpp>
#include <cordee/comm/transports/nccl/resources.hpp>
#include <cordee/comm/transports/nccl/status.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Used by one thread at a time.
class nccl_context {
 public:
  /// Collective: every rank, with the same id.
  nccl_context(bootstrap_client& control, const rank_assignment& self, int context, int device,
               std::chrono::milliseconds deadline, const ncclUniqueId& id)
      : control_(control), self_(self), context_(context), device_(device), deadline_(deadline) {
    comm_.initialize(self.size, self.rank, id);
    await([this] { return is_idle("ncclCommInitRankConfig"); }, {.collective = "start"});
  }
  nccl_context(const nccl_context&) = delete;
  nccl_context& operator=(const nccl_context&) = delete;
  ~nccl_context() { (void)cudaSetDevice(device_); }  // of the memory that the communicator frees

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
      std::fill_n(sizes_.data(), 2 * n, nccl_awaited_operation::unknown);
      for (std::size_t i = 0; i < sends.size(); ++i)
        sizes_.data()[receives.size() + i] = sends[i].size;
      auto* const sizes =
          reinterpret_cast<std::uint64_t*>(gpu_sizes_.reserve(n * sizeof(std::uint64_t)));
      copy(sizes, sizes_.data(), n, s);
      device::cuda_check(cudaEventRecord(cuda_.started, s), "cudaEventRecord");
      comm_.group("ncclSend or ncclRecv", [&](const auto& check) {
        for (std::size_t i = 0; i < n; ++i) {
          const bool receive = i < receives.size();
          const nccl_transfer& t = receive ? receives[i] : sends[i - receives.size()];
          const auto post = [&](void* data, std::size_t count, ncclDataType_t type) {
            if (count != 0)
              check(receive ? ncclRecv(data, count, type, t.peer, comm_.get(), s)
                            : ncclSend(data, count, type, t.peer, comm_.get(), s));
          };
          post(sizes + i, 1, ncclUint64);
          post(t.data, t.size, ncclUint8);
        }
      });
      const nccl_awaited_operation op{receives, sends, sizes, sizes_.data() + n, cuda_.started};
      await([&] { return is_idle("ncclGroupEnd"); }, op);
      copy(sizes_.data(), sizes, receives.size(), s);
      device::cuda_check(cudaEventRecord(cuda_.completed, s), "cudaEventRecord");
      await([&] { return is_complete(); }, op);
      for (std::size_t i = 0; i < receives.size(); ++i)
        op.check_size(i, sizes_.data()[i], self_, context_);
    });
  }

  /// start(communicator) of a collective of n elements, which is NCCL's `call`, and adds to
  /// `purpose`. Blocks until it is complete, or throws.
  template <class Start>
  void collective(const char* call, const char* purpose, std::size_t n, cudaStream_t s,
                  const Start& start) {
    if (n == 0) return;
    guarded(s, [&] {
      device::cuda_check(cudaEventRecord(cuda_.started, s), "cudaEventRecord");
      const std::string text = nccl_awaited_operation::describe_part(n, purpose);
      const nccl_awaited_operation op{.started = cuda_.started, .collective = text.c_str()};
      start(comm_);
      await([&] { return is_idle(call); }, op);
      device::cuda_check(cudaEventRecord(cuda_.completed, s), "cudaEventRecord");
      await([&] { return is_complete(); }, op);
    });
  }

  /// NCCL's sum or average of n elements over all ranks, in place, without a wait for the GPU:
  /// returns when NCCL has enqueued it on the stream, or
  /// where that is being captured, in the graph. What becomes of it, await_enqueued() throws.
  void enqueue_all_reduce(void* x, std::size_t n, ncclDataType_t type, ncclRedOp_t reduction,
                          cudaStream_t s) {
    if (n == 0) return;
    guarded(s, [&] {
      const std::string text = nccl_awaited_operation::describe_part(n, "a mean");
      enqueued_ = true;
      comm_.all_reduce(x, n, type, reduction, s);
      await([&] { return is_idle("ncclAllReduce"); }, {.collective = text.c_str()});
    });
  }
  /// Blocks until pending.is_complete(). The deadline is of each collective: pending.current() is
  /// the number of the one that the GPU executes, 0 for none, since nothing limits how long a rank
  /// computes. After an error, what is in flight has ended.
  template <class Pending>
  void await_enqueued(const Pending& pending) {
    const auto end = [&] {
      comm_.abort();
      poll_until([&] { return pending.is_complete(); }, grace_period(deadline_),
                 std::chrono::microseconds(50));
    };
    guarded_by(end, [&] {
      enqueued_wait<Pending> wait{*this, pending};
      await_wait(wait);
    });
    enqueued_ = false;
  }
  /// Ends what is enqueued and not awaited. A rank that fails in between releases memory, for which
  /// CUDA waits for the GPU, and its peers do not take part any more.
  void end_enqueued() noexcept {
    if (enqueued_ || comm_.has_captured()) comm_.abort();
  }

  /// For its memory; makes its GPU the calling thread's current one. Of a run that has failed it is
  /// aborted: ncclCommDeregister would wait for each peer that has mapped the memory.
  [[nodiscard]] nccl_communicator& communicator() noexcept {
    (void)cudaSetDevice(device_);
    if (control_.first_failure.happened()) comm_.abort();
    return comm_;
  }

  /// Collective. Requires that every message has been received.
  void finish() {
    if (!comm_.exists()) return;
    comm_.finalize();
    await([this] { return is_idle("ncclCommFinalize"); }, {.collective = "end"});
    comm_.destroy();
  }

 private:
  template <class Ready>
  struct operation_wait {
    nccl_context& context;
    const Ready& is_ready;
    const nccl_awaited_operation& op;
    bool has_started = op.started == nullptr;

    bool ready() const { return is_ready(); }
    bool started() {
      if (!has_started) has_started = has_passed(op.started);
      return has_started;
    }
    void inspect() const { context.inspect(op); }
    [[nodiscard]] int left_peer() const { return op.left_peer(context.control_, context.self_); }
    [[nodiscard]] std::string describe() const { return op.describe_pending(context.context_); }
  };

  // A wait for collectives that were enqueued before.
  template <class Pending>
  struct enqueued_wait {
    nccl_context& context;
    const Pending& pending;
    const nccl_awaited_operation op{.collective = "contribute to a mean"};
    std::uint64_t seen = 0;  // the collective at the last poll

    bool ready() const { return context.is_idle("a mean") && pending.is_complete(); }
    bool started() {
      const std::uint64_t current = pending.current();
      return std::exchange(seen, current) == current && current != 0;
    }
    static void inspect() {}
    [[nodiscard]] int left_peer() const { return op.left_peer(context.control_, context.self_); }
    [[nodiscard]] std::string describe() const { return op.describe_pending(context.context_); }
  };

  static void copy(std::uint64_t* to, const std::uint64_t* from, std::size_t n, cudaStream_t s) {
    if (n != 0)
      device::cuda_check(cudaMemcpyAsync(to, from, n * sizeof *from, cudaMemcpyDefault, s),
                         "cudaMemcpyAsync");
  }

  // f(); if it throws, fails the run and ends what is in flight.
  template <class F>
  void guarded(cudaStream_t s, const F& f) {
    guarded_by([&] { abort(s); }, f);
  }
  template <class End, class F>
  void guarded_by(const End& end, const F& f) {
    if (control_.first_failure.happened() || !comm_.exists()) {
      end_enqueued();
      throw_aborted();
    }
    device::cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    try {
      f();
    } catch (const std::exception& e) {
      control_.fail(e.what());  // no effect where the exception reports the run's failure
      end();
      throw;
    }
  }

  // Whether the communicator has enqueued on its stream all that it was given.
  bool is_idle(const char* call) {
    const ncclResult_t state = comm_.state();
    if (state == ncclInProgress) return false;
    if (state == ncclSuccess) return true;
    await_cause();
    throw_nccl_error(state, concat(call, " on context ", context_), comm_.get());
  }
  bool is_complete() { return is_idle("a transfer") && has_passed(cuda_.completed); }
  static bool has_passed(cudaEvent_t e) {
    const cudaError_t status = cudaEventQuery(e);
    if (status != cudaErrorNotReady) device::cuda_check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }

  template <class Ready>
  void await(const Ready& ready, const nccl_awaited_operation& op) {
    operation_wait<Ready> wait{*this, ready, op};
    await_wait(wait);
  }
  template <class Wait>
  void await_wait(Wait& wait) {
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
  [[gnu::cold]] void inspect(const nccl_awaited_operation& op) {
    if (op.sizes == nullptr || !has_passed(op.started)) return;
    const std::vector<std::uint64_t> before(op.seen, op.seen + op.receives.size());
    copy(op.seen, op.sizes, op.receives.size(), cuda_.inspection);
    device::cuda_check(cudaStreamSynchronize(cuda_.inspection), "cudaStreamSynchronize");
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before[i] == op.seen[i] && before[i] != nccl_awaited_operation::unknown)
        op.check_size(i, before[i], self_, context_);
  }

  // Ends what is in flight: after this, nothing more is written to the caller's memory.
  [[gnu::cold]] void abort(cudaStream_t s) noexcept {
    comm_.abort();
    if (cudaEventRecord(cuda_.completed, s) != cudaSuccess) return;
    poll_until([&] { return cudaEventQuery(cuda_.completed) != cudaErrorNotReady; },
               grace_period(deadline_), std::chrono::microseconds(50));
  }

  bootstrap_client& control_;
  const rank_assignment self_;
  const int context_, device_;
  const std::chrono::milliseconds deadline_;
  nccl_communicator comm_;
  bool enqueued_ = false;  // whether work is enqueued that no wait has watched to its end
  const stream_set cuda_;
  pinned_sizes sizes_;
  grow_only_memory gpu_sizes_, staging_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
