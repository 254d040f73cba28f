// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes, on one machine or on many, over Open MPI or MPICH (component mpi).
//
// Messages are sent between host memories; those of a GPU are staged, so the MPI need not support
// CUDA. Every wait has a deadline. A message of another size, or a rank that throws, leaves or
// stalls, ends the run with the cause on every rank; ranks that do not end then are killed.
// mpi/world.hpp describes how MPI is called.
//
// Nothing here changes the layout of another header's type, so the ABI namespace does not name MPI;
// objects compiled for two MPIs cannot be linked to one of them anyway.
#pragma once

#include <chrono>
#include <climits>
#include <memory>
#include <string_view>
#include <vector>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/mpi/world.hpp>
#include <cordee/comm/transports/process_handle.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {
struct mpi_options {
  /// How long a rank waits for another before it ends the run with an error that names that rank.
  /// Unit: milliseconds. Range: above 0, else usage_error. More than a hundred years, as
  /// `milliseconds::max()`, counts as a hundred years. All ranks, and a message in flight, then
  /// have as long again to end, at most ten seconds; after that the ranks are killed.
  std::chrono::milliseconds deadline{120'000};
  /// Whether ranks of a machine may share a GPU if it has fewer GPUs than ranks.
  bool share_gpus = false;
};
}  // namespace detail::comm

/// Communicator of one rank of `mpi::launch`.
class mpi : public detail::comm::process_handle<mpi, detail::comm::mpi_world> {
  using base = detail::comm::process_handle<mpi, detail::comm::mpi_world>;
  friend base;

 public:
  /// The transport's name in messages.
  static constexpr std::string_view name = "mpi";
  /// Default bucket size: the first power of two that reaches 0.9 of the rate of 16 MiB, by a ring
  /// of two ranks.
  static constexpr std::size_t bucket_bytes = std::size_t{8} << 20;

  using options = detail::comm::mpi_options;  ///< Options of launch().

  /// Runs f(comm) in this process, which mpirun or srun has started, with its share of the node's
  /// cores as workers, and returns when all ranks have ended. A GPU created there without an
  /// ordinal is that of the rank's number on its node. If a rank throws, the others stop at their
  /// next exchange, and the first failure is thrown: as error by the lowest rank, "rank 2: ...",
  /// and as aborted by the others, whose programs need not print it. A rank that does not end
  /// within the grace period after that (options) is killed by MPI_Abort.
  template <class F>
  static void launch(const F& f, options o = {}) {
    const auto world = std::make_shared<detail::comm::mpi_world>(
        detail::comm::checked_deadline(o.deadline, "mpi::options{.deadline}"));
    base::run(world, f, o.share_gpus, "mpi::options", detail::device::local_rank_scope::process);
  }

  using base::exchange;
  /// Exchange of host memory.
  /// @throws usage_error for a message of 2 GiB or more, or a peer that does not exist; error if
  /// the run fails.
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

 private:
  using base::base;

  detail::comm::mpi_transfer checked(const detail::comm::mpi_transfer& t) const {
    this->expects_peer(t.peer);
    expects(t.size <= INT_MAX, "mpi: a message of 2 GiB or more; use smaller buckets");
    return t;
  }
};

}  // namespace cordee::inline CORDEE_ABI
