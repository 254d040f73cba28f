// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes, on one machine or on many, over TCP with ZeroMQ, without MPI (component
// zeromq):
//
//   export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
//   for r in 0 1 2 3; do RANK=$r ./train & done
//
// The transport can receive from any source, as a parameter server does. Messages travel between
// host memories; those of a GPU are staged. Every wait has a deadline; a message of another size,
// or a rank that throws, leaves, dies or stalls, ends the run with the cause on every rank.
//
// Ranks listen at the loopback address unless `options` name another one, and accept only messages
// with the run's secret; see zeromq/acceptor.hpp. The secret, and all data, are sent unencrypted:
// over a network that others can read, use a tunnel.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>
#include <cordee/comm/transports/process_handle.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/comm/transports/zeromq/elastic.hpp>
#include <cordee/comm/transports/zeromq/world.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {
struct zeromq_options {
  /// How long a rank waits for another before it ends the run with an error that names that rank.
  /// Unit: milliseconds. Range: above 0, else usage_error. More than a hundred years, as
  /// `milliseconds::max()`, counts as a hundred years. All ranks then have as long again to end, at
  /// most ten seconds; the launcher must end those that do not.
  std::chrono::milliseconds deadline{120'000};
  /// Where ranks listen: an address of this host (IPv4 or IPv6), an interface's name ("eth0"), or
  /// "*" for all. Range: one of these, else error.
  std::string listen = "127.0.0.1";
  /// Whether ranks of a machine may share a GPU if it has fewer GPUs than ranks.
  bool share_gpus = false;
  /// Whether the run continues when ranks are lost, and new ones may join. Default: a lost rank
  /// ends it.
  std::optional<cordee::elastic> elastic{};
};
}  // namespace detail::comm

/// Communicator of one rank of `zeromq::launch`.
class zeromq : public detail::comm::process_handle<zeromq, detail::comm::zeromq_world> {
  using base = detail::comm::process_handle<zeromq, detail::comm::zeromq_world>;
  friend base;

 public:
  /// The transport's name in messages.
  static constexpr std::string_view name = "zeromq";

  using options = detail::comm::zeromq_options;  ///< Options of launch().

  /// Runs f(comm) in this process, whose rank comes from the environment (RANK and WORLD_SIZE, or
  /// another launcher's variables), with its share of the node's cores as workers, and returns when
  /// all ranks have ended. A GPU created by this thread without an ordinal is that of the rank's
  /// number on its node. If a rank throws or dies, the others stop at their next exchange, and the
  /// first failure is thrown: as error by the lowest surviving rank, "rank 2: ...", and as aborted
  /// by the others, whose programs need not print it. While rank 0's process is stopped, no rank
  /// learns which others survive, and each throws error.
  template <class F>
  static void launch(const F& f, const options& o = {}) {
    launch(f, rendezvous_tcp{}, o);
  }
  /// Same, with another rendezvous: rendezvous_file{"/shared/run-17"}. With options{.elastic}, f is
  /// called again in each world in which the run continues; see zeromq/elastic.hpp.
  template <class F, detail::comm::Rendezvous R>
  static void launch(const F& f, const R& rendezvous, const options& o = {}) {
    using detail::comm::zeromq_world, detail::device::local_rank_scope;
    const auto deadline = detail::comm::checked_deadline(o.deadline, "zeromq::options{.deadline}");
    if (!o.elastic) {
      const auto world = std::make_shared<zeromq_world>(rendezvous, deadline, o.listen);
      base::run(world, f, o.share_gpus, "zeromq::options", local_rank_scope::thread);
      return;
    }
    detail::comm::run_elastic(
        *o.elastic, rendezvous, deadline, o.listen,
        [&](const std::shared_ptr<zeromq_world>& world) {
          base::in_scope(world, o.share_gpus, "zeromq::options", local_rank_scope::thread,
                         [&] { f(zeromq(world, detail::comm::reducer_context)); });
        });
  }

  using base::exchange;
  /// Exchange of host memory.
  /// @throws usage_error for a peer that does not exist; error if the run fails.
  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream) const {
    thread_local std::vector<send_op<cpu>> host_out;  // allocate in a thread's first calls only
    thread_local std::vector<recv_op<cpu>> host_in;
    host_out.clear();
    host_in.clear();
    for (const auto& m : out) host_out.push_back({checked(m.peer), {m.bytes.data, m.bytes.size}});
    for (const auto& m : in) host_in.push_back({checked(m.peer), {m.bytes.data, m.bytes.size}});
    world_->exchange(context_, host_in, host_out);
  }

 private:
  using base::base;

  int checked(int peer) const {
    this->expects_peer(peer);
    return peer;
  }
};

}  // namespace cordee::inline CORDEE_ABI
