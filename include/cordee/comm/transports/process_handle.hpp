// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the communicators of processes that send from the host's memory share (mpi, zeromq): a rank
// of a world and a context of messages. A GPU's messages are staged through the host's memory.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/host_staging.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/local_rank.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Base of a communicator `Self` over `World`, which adds exchange() between host memories.
template <class Self, class World>
class process_handle {
 public:
  /// Exchanges of host memory block the calling thread.
  static constexpr bool blocks_host = true;

  /// Rank of this process, from 0.
  [[nodiscard]] int rank() const { return world_->rank(); }
  /// Number of processes in the run.
  [[nodiscard]] int size() const { return world_->size(); }
  /// The same rank on message context k (comm/transports/transport.hpp).
  /// @throws usage_error for a context that does not exist.
  [[nodiscard]] Self duplicate(int k) const {
    if (k < 0 || k >= context_count) throw usage_error(concat(Self::name, ": no such context"));
    return Self(world_, k);
  }

  /// GPU memory, staged through the host's.
  template <Device D>
    requires GpuStream<typename D::stream>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    exchange_staged<D>(out, in, s, [this](const auto& host_out, const auto& host_in) {
      static_cast<const Self&>(*this).exchange(host_out, host_in, cpu::stream{});
    });
  }

  /// See AnySource.
  /// @throws usage_error on a context other than that of requests.
  [[nodiscard]] int probe_any(std::span<const int> expected) const {
    if (context_ != request_context)
      throw usage_error(concat(Self::name, ": probe_any requires the request context"));
    for (const int peer : expected) expects_peer(peer);
    return world_->probe_any(context_, expected);
  }

  /// Ends the run: this cause is thrown on every rank that waits now or later.
  void abort(const char* why) const { world_->fail(why); }

 protected:
  process_handle(std::shared_ptr<World> world, int context)
      : world_(std::move(world)), context_(context) {}

  /// f(communicator) with the rank's share of the node's cores and GPUs, until all ranks end.
  template <class F>
  static void run(const std::shared_ptr<World>& world, const F& f, bool share_gpus,
                  const char* options, device::local_rank_scope::extent where) {
    in_scope(world, share_gpus, options, where,
             [&] { run_rank(*world, [&] { f(Self(world, reducer_context)); }); });
  }
  /// f() with the rank's share of the node's cores and GPUs.
  template <class F>
  static void in_scope(const std::shared_ptr<World>& world, bool share_gpus, const char* options,
                       device::local_rank_scope::extent where, const F& f) {
    const cpu::worker_limit cores(world->node.cores_per_rank());
    const device::local_rank_scope gpu({.rank = world->node.gpu_rank,
                                        .size = world->node.gpu_size,
                                        .share_gpus = share_gpus,
                                        .options = options},
                                       where);
    f();
  }
  void expects_peer(int peer) const { comm::expects_peer(Self::name.data(), peer, size()); }

  std::shared_ptr<World> world_;
  int context_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
