// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes with a GPU each, on one machine or on many, over NCCL (component nccl).
//
// Messages are sent between GPUs, in order of the stream that they are posted on; host memory is
// staged through the GPU. A call blocks until its operation is complete, so the call that meets a
// failure throws it, and every wait has a deadline. NCCL's own mean of GPU memory can be enqueued
// instead, without blocking the host; its failure is thrown by the host's next wait for the GPU,
// which polls NCCL and has the same deadline. A message of another size, or a rank that throws,
// leaves, dies or stalls, ends the run with the cause on every rank. nccl/context.hpp describes how
// NCCL is called.
#pragma once

#include <bit>
#include <chrono>
#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/nccl/registered_memory.hpp>
#include <cordee/comm/transports/nccl/staging.hpp>
#include <cordee/comm/transports/nccl/world.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/local_rank.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

struct nccl_options {
  /// How long a rank waits for another before it ends the run with an error that names that rank.
  /// Unit: milliseconds. Range: above 0, else usage_error. More than a hundred years, as
  /// `milliseconds::max()`, counts as a hundred years. Work in flight on the GPU, and then the
  /// other ranks, have as long again to end, at most ten seconds; after that this rank ends. If
  /// rank 0 has died, ranks that need not print the cause may wait twice as long for the one that
  /// prints it.
  std::chrono::milliseconds deadline{120'000};
  /// GPU of this rank; if negative, that of its local rank. Range: a GPU visible to this process
  /// that no other rank uses, else error.
  int device = -1;
};

}  // namespace detail::comm

/// Communicator of one rank of `nccl::launch`.
class nccl {
 public:
  /// See TransportOn.
  static constexpr bool blocks_host = true;
  /// The transport's name in messages.
  static constexpr std::string_view name = "nccl";
  /// As PyTorch's DistributedDataParallel (bucket_cap_mb); not measured here.
  static constexpr std::size_t bucket_bytes = std::size_t{25} << 20;
  /// NCCL requires every rank to launch the operations of all its communicators in one order, which
  /// two threads would not keep (user's guide 2.30, "Using multiple NCCL communicators
  /// concurrently"): nccl/world.hpp.
  static constexpr bool concurrent_contexts = false;

  using options = detail::comm::nccl_options;  ///< Options of launch().

  /// Runs f(comm) in this process, which torchrun, mpirun or srun has started, with the GPU of its
  /// local rank as the current one and its share of the node's cores as workers, and returns when
  /// all ranks have ended. If a rank throws or dies, the others stop at their next operation, and
  /// the first failure is thrown: as error by the lowest surviving rank, "rank 2: ...", and as
  /// aborted by the others, whose programs need not print it. While rank 0's process is stopped, no
  /// rank learns which others survive, and each throws error; so does each that cannot reach the
  /// port of rank 1, or of the lowest survivor, when rank 0 has died.
  template <class F>
  static void launch(const F& f, options o = {}) {
    launch(f, rendezvous_tcp{}, o);
  }
  /// Same, with another rendezvous: rendezvous_file{"/shared/run-17"}, rendezvous_comm{an mpi
  /// communicator}.
  template <class F, detail::comm::Rendezvous R>
  static void launch(const F& f, const R& rendezvous, options o = {}) {
    const auto world = std::make_shared<detail::comm::nccl_world>(
        rendezvous, detail::comm::checked_deadline(o.deadline, "nccl::options{.deadline}"),
        o.device);
    const cpu::worker_limit cores(world->workers());
    const detail::device::local_rank_scope gpu({.ordinal = world->device()},
                                               detail::device::local_rank_scope::thread);
    detail::comm::run_rank(*world, [&] { f(nccl{world, detail::comm::reducer_context}); });
  }

  /// Rank of this process, from 0.
  [[nodiscard]] int rank() const { return world_->rank(); }
  /// Number of processes in the run.
  [[nodiscard]] int size() const { return world_->size(); }
  /// The same ranks on context k (comm/transports/transport.hpp). The first transfer on the request
  /// or reply context creates its NCCL communicator, and waits for every rank to do so.
  /// @throws usage_error for a context that does not exist.
  [[nodiscard]] nccl duplicate(int k) const {
    expects(k >= 0 && k < detail::comm::context_count, "nccl: no such context");
    return nccl{world_, k};
  }

  /// Exchange of GPU memory in stream order; blocks until all messages have arrived.
  /// @throws usage_error for a peer that does not exist; error if the run fails.
  template <Device D>
    requires detail::device::CudaStream<typename D::stream>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    context().exchange(transfers(in), transfers(out), s.handle);
  }

  /// Exchange of host memory, staged through the GPU's.
  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream) const {
    detail::comm::nccl_staging(context()).exchange(transfers(in), transfers(out));
  }

  /// Receives into memory of the stream's allocator, then adds it.
  template <class Real, Device D>
    requires detail::device::StreamAllocator<typename D::stream>
  void exchange_add(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                    typename D::stream s) const {
    std::size_t size = 0;
    for (const auto& m : in) size += m.bytes.size;
    const detail::device::stream_buffer<std::byte, typename D::stream> staging(s, size);
    std::vector<recv_op<D>> received(in.begin(), in.end());
    std::byte* next = staging.data();
    for (recv_op<D>& m : received) m.bytes.data = std::exchange(next, next + m.bytes.size);
    exchange(out, std::span<const recv_op<D>>(received), s);
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    using cordee::detail::ops::add;
    for (std::size_t i = 0; i < in.size(); ++i)
      add(in[i].bytes.size / sizeof(Real), reinterpret_cast<const Real*>(received[i].bytes.data),
          reinterpret_cast<Real*>(in[i].bytes.data), s);
  }

  /// The mean over ranks, in place. NCCL's average multiplies each summand by 1/p, which rounds
  /// unless p is a power of two; otherwise the sum is divided, once.
  template <std::floating_point Real, Device D>
    requires(D::host_memory || detail::device::CudaStream<typename D::stream>)
  void mean(span_on<Real, D> x, typename D::stream s) const {
    const detail::comm::number_range all{0, x.size};
    reduce_mean(x, s, [&](ncclRedOp_t op) {
      on_gpu(x, s, all, all, [&](void* data, cudaStream_t on) {
        context().collective("ncclAllReduce", "a mean", x.size, on,
                             [&](auto& c) { c.all_reduce(data, x.size, type<Real>(), op, on); });
      });
    });
  }
  /// This rank's numbers of n: a chunk of whole units of 64, of equal length on all ranks, as
  /// NCCL's collectives require; the last rank also has the remainder, fewer than one unit per
  /// rank.
  [[nodiscard]] detail::comm::number_range own_range(std::size_t n) const {
    return detail::comm::equal_range(n, rank(), size());
  }
  /// This rank's range <- its mean, in place, rounded as in mean(); NCCL may add the summands in
  /// another order. Blocks until complete. The other numbers are undefined.
  template <std::floating_point Real, Device D>
    requires(D::host_memory || detail::device::CudaStream<typename D::stream>)
  void reduce_scatter_mean(span_on<Real, D> x, typename D::stream s) const {
    const auto own = own_range(x.size);
    reduce_mean(x.subspan(own.begin, own.size()), s, [&](ncclRedOp_t op) {
      on_gpu(x, s, {0, x.size}, own, [&](void* data, cudaStream_t on) {
        context().collective("ncclReduceScatter", "a reduce-scatter", x.size, on,
                             [&](auto& c) { c.reduce_scatter(chunks(data, x), op, on); });
      });
    });
  }
  /// x <- every rank's range of it, in place. Blocks until complete.
  template <std::floating_point Real, Device D>
    requires(D::host_memory || detail::device::CudaStream<typename D::stream>)
  void all_gather(span_on<Real, D> x, typename D::stream s) const {
    if (size() == 1) return;
    on_gpu(x, s, own_range(x.size), {0, x.size}, [&](void* data, cudaStream_t on) {
      context().collective("ncclAllGather", "an all-gather", x.size, on,
                           [&](auto& c) { c.all_gather(chunks(data, x), on); });
    });
  }
  /// mean() in stream order, which may be captured in a graph: does not wait for the GPU. Requires
  /// await_enqueued before the host relies on any later work.
  template <std::floating_point Real, Device D>
    requires detail::device::CudaStream<typename D::stream>
  void enqueue_mean(span_on<Real, D> x, typename D::stream s) const {
    reduce_mean(x, s, [&](ncclRedOp_t op) {
      context().enqueue_all_reduce(x.data, x.size, type<Real>(), op, s.handle);
    });
  }
  /// The sum over ranks, in place, like enqueue_mean.
  template <std::floating_point Real, Device D>
    requires detail::device::CudaStream<typename D::stream>
  void enqueue_sum(span_on<Real, D> x, typename D::stream s) const {
    if (size() > 1) context().enqueue_all_reduce(x.data, x.size, type<Real>(), ncclSum, s.handle);
  }
  /// Blocks until pending.is_complete(), or throws the failure of the enqueued operations:
  /// pending.current() is the number of the operation that the GPU executes, 0 for none.
  template <class Pending>
  void await_enqueued(const Pending& pending) const {
    context().await_enqueued(pending);
  }

  /// `bytes` bytes from ncclMemAlloc, with undefined content, registered until the last copy of the
  /// pointer is destroyed: for memory that every rank averages in place repeatedly, from the same
  /// offset. Null with one rank, for zero bytes and before NCCL 2.19.
  /// @throws error if memory is exhausted; usage_error for a GPU other than the communicator's.
  template <Device D>
    requires detail::device::CudaStream<typename D::stream>
  [[nodiscard]] std::shared_ptr<void> allocate_registered(const D& device,
                                                          std::size_t bytes) const {
    if (size() == 1 || bytes == 0 || !detail::comm::nccl_registers_memory) return nullptr;
    if constexpr (requires { device.ordinal(); })
      expects(device.ordinal() == world_->device(),
              "nccl: the network is on another GPU than its rank's communicator: make it of gpu{}, "
              "or choose the GPU of both by nccl::options{.device}");
    const auto memory =
        std::make_shared<detail::comm::nccl_registered_memory>(world_, context_, bytes);
    return {memory, memory->data()};
  }

  /// Ends the run: this cause is thrown on every rank that waits now or later.
  void abort(const char* why) const {
    world_->fail(why);
    world_->end_enqueued(context_);
  }

 private:
  using transfer = detail::comm::nccl_transfer;
  template <class Real>
  static consteval ncclDataType_t type() {
    static_assert(sizeof(Real) == 4 || sizeof(Real) == 8, "nccl: means of float and double only");
    return sizeof(Real) == 4 ? ncclFloat32 : ncclFloat64;
  }

  nccl(std::shared_ptr<detail::comm::nccl_world> world, int context)
      : world_(std::move(world)), context_(context) {}

  // reduce(op) and, where op is the sum, the division of x.
  template <class Real, class D, class Reduce>
  void reduce_mean(span_on<Real, D> x, typename D::stream s, const Reduce& reduce) const {
    if (size() == 1) return;
    const bool power_of_two = std::has_single_bit(static_cast<unsigned>(size()));
    reduce(power_of_two ? ncclAvg : ncclSum);
    // for a GPU by argument-dependent lookup: ops/gpu/reduce.hpp
    using cordee::detail::ops::divide;
    if (!power_of_two) divide(x.size, static_cast<Real>(size()), x.data, s);
  }

  // x's, of which `data` is a copy, or x.
  template <class Real, class D>
  [[nodiscard]] detail::comm::nccl_chunks chunks(void* data, span_on<Real, D> x) const {
    return {data, x.size, type<Real>(), rank(), size()};
  }
  // f(x in GPU memory, stream), which reads the numbers `in` and writes `out`.
  template <class Real, class D, class F>
  void on_gpu(span_on<Real, D> x, typename D::stream s, detail::comm::number_range in,
              detail::comm::number_range out, const F& f) const {
    if constexpr (D::host_memory)
      detail::comm::nccl_staging(context()).run(bytes(x), in, out, sizeof(Real), f);
    else
      f(x.data, s.handle);
  }

  [[nodiscard]] detail::comm::nccl_context& context() const { return world_->context(context_); }
  template <class Message>
  std::vector<transfer> transfers(std::span<const Message> messages) const {
    std::vector<transfer> result;
    for (const Message& m : messages) {
      detail::comm::expects_peer("nccl", m.peer, size());
      // NCCL only reads what it sends, although a transfer's pointer is not const.
      result.push_back(transfer{m.peer, const_cast<std::byte*>(m.bytes.data), m.bytes.size});
    }
    return result;
  }

  std::shared_ptr<detail::comm::nccl_world> world_;
  int context_;
};

}  // namespace cordee::inline CORDEE_ABI
