// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes, on one machine or on many, over Open MPI or MPICH (component mpi).
//
// Messages travel between host memories; those of a GPU are staged, so the MPI need not support
// CUDA. Every wait has a deadline; a message of another size, a rank that throws, leaves or stalls
// ends the run with the cause on every rank, and ranks that do not end then are killed. How MPI is
// called is described in mpi/world.hpp.
//
// Nothing here changes the layout of another header's type, so the ABI namespace does not name MPI;
// objects compiled for two MPIs cannot be linked to one of them anyway.
#pragma once

#include <chrono>
#include <climits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/host_staging.hpp>
#include <cordee/comm/transports/mpi/world.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/local_rank.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {
struct mpi_options {
  /// A rank that waits longer for another one ends the run with an error that names it. All ranks,
  /// and a message in flight, then have the same time to end, at most ten seconds; after that the
  /// ranks are killed.
  std::chrono::milliseconds deadline{120'000};
  /// Whether ranks of a machine may share a GPU, where it has fewer GPUs than ranks.
  bool share_gpus = false;
};
}  // namespace detail::comm

/// The communicator of one rank of `mpi::launch`.
class mpi {
 public:
  static constexpr bool blocks_host = true;
  static constexpr std::string_view name = "mpi";
  /// Of powers of two the first with 0.9 of the rate of 16 MiB, by a ring of two ranks.
  static constexpr std::size_t bucket_bytes = std::size_t{8} << 20;

  using options = detail::comm::mpi_options;

  /// Runs f(comm) in this process, one of those that mpirun or srun has started, with its share of
  /// the node's cores as workers, and returns when all ranks have ended. A GPU made there without
  /// an ordinal is the one of the rank's number on its node. If one throws, the others
  /// stop at their next exchange, and the first failure is thrown: as error by the lowest rank,
  /// "rank 2: ...", and as aborted by the others, whose programs need not print it. Kills a rank
  /// that does not end within the grace period after that (options), by MPI_Abort.
  template <class F>
  static void launch(const F& f, options o = {}) {
    const auto world = std::make_shared<detail::comm::mpi_world>(o.deadline);
    const cpu::worker_limit cores(world->node.cores_per_rank());
    const detail::device::local_rank_scope gpu({.rank = world->node.gpu_rank,
                                                .size = world->node.gpu_size,
                                                .share_gpus = o.share_gpus,
                                                .options = "mpi::options"},
                                               detail::device::local_rank_scope::process);
    detail::comm::run_rank(*world, [&] { f(mpi{world, detail::comm::reducer_context}); });
  }

  [[nodiscard]] int rank() const { return world_->rank(); }
  [[nodiscard]] int size() const { return world_->size(); }
  [[nodiscard]] mpi duplicate(int k) const {
    expects(k >= 0 && k < detail::comm::context_count, "mpi: no such context");
    return mpi{world_, k};
  }

  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream) const {
    using detail::comm::mpi_transfer;
    thread_local std::vector<mpi_transfer> transfers;  // allocates in a thread's first calls only
    transfers.clear();
    for (const auto& m : in)
      transfers.push_back(checked(mpi_transfer{m.peer, m.bytes.data, m.bytes.size}));
    for (const auto& m : out)  // MPI only reads it, although its parameter is not const
      transfers.push_back(
          checked(mpi_transfer{m.peer, const_cast<std::byte*>(m.bytes.data), m.bytes.size}));
    const detail::comm::mpi_transfers all(transfers);
    world_->exchange(context_, all.first(in.size()), all.subspan(in.size()));
  }

  /// GPU memory, staged through the host's.
  template <Device D>
    requires GpuStream<typename D::stream>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    detail::comm::exchange_staged<D>(out, in, s, [this](const auto& host_out, const auto& host_in) {
      this->exchange(host_out, host_in, cpu::stream{});
    });
  }

  /// See AnySource. Requires the request context. As fair as the MPI's matching is.
  [[nodiscard]] int probe_any(std::span<const int> expected) const {
    expects(context_ == detail::comm::request_context,
            "mpi: probe_any requires the request context");
    for (const int peer : expected) detail::comm::expects_peer("mpi", peer, size());
    return world_->probe_any(context_, expected);
  }

  /// Ends the run: every rank that waits now or later throws this cause.
  void abort(const char* why) const { world_->fail(why); }

 private:
  mpi(std::shared_ptr<detail::comm::mpi_world> world, int context)
      : world_(std::move(world)), context_(context) {}

  detail::comm::mpi_transfer checked(const detail::comm::mpi_transfer& t) const {
    detail::comm::expects_peer("mpi", t.peer, size());
    expects(t.size <= INT_MAX, "mpi: a message of 2 GiB or more; use smaller buckets");
    return t;
  }

  std::shared_ptr<detail::comm::mpi_world> world_;
  int context_;
};

}  // namespace cordee::inline CORDEE_ABI
