// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a nccl::launch: its control connection, its GPU, and an NCCL communicator for each
// context.
//
// The contexts of reducers and of agreements have their communicators from the start, those of a
// server's requests and replies from their first use, which is collective.
//
// NCCL requires that every rank launches the operations of all its communicators in one order
// (user's guide 2.30, "Using multiple NCCL communicators concurrently"): if the first blocks of two
// collectives took the multiprocessors that each needs on the other rank, both would wait forever.
// Two threads, a courier with buckets and the host with batch statistics, keep no such order, and
// with no driver may they race (NCCL_LAUNCH_RACE_FATAL); so a trainer does not have both in flight
// (nccl::concurrent_contexts). For callers that launch on two contexts from one thread,
// NCCL_LAUNCH_ORDER_IMPLICIT makes NCCL start a kernel of one communicator only when all blocks of
// the one before, of another, run. With a driver that cannot detect that, also in captured graphs,
// it would wait for their end instead: then it is not set.
//
// The local rank selects the GPU. That no two ranks share one is checked before NCCL is
// initialized, which would hang or fail without naming them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/transports/bootstrap/survivors.hpp>
#include <cordee/comm/transports/host_info.hpp>
#include <cordee/comm/transports/nccl/context.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cuda_pool_access.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class nccl_world {
 public:
  /// `device`: the GPU to use; -1: the one of the local rank.
  template <Rendezvous R>
  nccl_world(R rendezvous, std::chrono::milliseconds wait_limit, int device)
      : deadline(wait_limit),
        bootstrap_(rendezvous, rendezvous.host(), wait_limit),
        self_(bootstrap_.self),
        control_(bootstrap_.control()) {
    try {
      survivors_.emplace(bootstrap_, rendezvous.host());
      start(device);
    } catch (const std::exception& e) {
      fail(e.what());
      leave();
      throw;
    }
  }
  nccl_world(const nccl_world&) = delete;
  nccl_world& operator=(const nccl_world&) = delete;

  [[nodiscard]] int rank() const { return self_.rank; }
  [[nodiscard]] int size() const { return self_.size; }
  [[nodiscard]] const failure& first_failure() const { return control_.first_failure; }
  [[nodiscard]] bool has_left(int rank) const {
    return control_.has_left(rank) || (survivors_ && survivors_->has_left(rank));
  }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] int workers() const { return workers_; }
  /// Collective at its first call for a context that is not made at the start.
  [[nodiscard]] nccl_context& context(int k) {
    const auto i = static_cast<std::size_t>(k);
    std::call_once(made_[i], [&] {
      if (first_failure().happened())
        throw error(concat("rank ", rank(), " aborted: ", first_failure().cause()));
      device::cuda_check(cudaSetDevice(device_), "cudaSetDevice");
      try {
        contexts_[i] =
            std::make_unique<nccl_context>(control_, self_, k, device_, deadline, ids_[i]);
      } catch (const std::exception& e) {
        fail(e.what());  // no effect where the exception reports the run's failure
        throw;
      }
    });
    return *contexts_[i];
  }

  /// Sends the cause of the run's failure to every rank; the first cause counts.
  void fail(const std::string& cause) { control_.fail(cause); }

  /// Ends what context k has enqueued; by the thread that uses it.
  void end_enqueued(int k) noexcept {
    if (const auto& context = contexts_[static_cast<std::size_t>(k)]) context->end_enqueued();
  }

  /// See bootstrap_session::leave.
  [[gnu::cold]] void leave() {
    bootstrap_.leave([] {});
    if (survivors_ && control_.has_lost_server()) survivors_->meet(grace_period(deadline));
    if (first_failure().happened()) return;
    for (const auto& context : contexts_)
      if (context) context->finish();
  }

  const std::chrono::milliseconds deadline;

 private:
  struct gpu_info {
    char pci_bus_id[32];
    std::int64_t process;
    int ordinal;
    std::array<ncclUniqueId, context_count> ids;  // from rank 0
  };

  [[gnu::cold]] void start(int device) {
    const auto hosts = bootstrap_.allgather(host_info::local());
    const node_info node = node_info::of(self_.rank, hosts);
    workers_ = node.cores_per_rank();

    device_ = device >= 0 ? device : device_of(node.local_rank);
    device::cuda_check(cudaSetDevice(device_), concat("cudaSetDevice of GPU ", device_));
    order_launches();
    gpu_info gpu{};
    gpu.process = getpid();
    gpu.ordinal = device_;
    device::cuda_check(cudaDeviceGetPCIBusId(gpu.pci_bus_id, sizeof gpu.pci_bus_id, device_),
                       "cudaDeviceGetPCIBusId");
    if (self_.rank == 0)
      for (ncclUniqueId& id : gpu.ids) nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const auto gpus = bootstrap_.allgather(gpu);
    check_distinct(hosts, gpus);
    device::share_pool(device_, peers_in_process(hosts, gpus));
    ids_ = gpus.front().ids;
    for (const int k : {reducer_context, agreement_context}) (void)context(k);
  }

  // See the head of this file; a value that the user has set stays.
  [[gnu::cold]] static void order_launches() {
    static const bool once = [] {
      int driver = 0;
      device::cuda_check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
      // From 12.9 on also in captured graphs.
      if (CUDART_VERSION >= 12030 && driver >= 12090) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
      return true;
    }();
    (void)once;
  }

  // The GPUs of the other ranks of this process.
  [[nodiscard, gnu::cold]] std::vector<int> peers_in_process(
      const std::vector<host_info>& hosts, const std::vector<gpu_info>& gpus) const {
    std::vector<int> peers;
    const auto own = static_cast<std::size_t>(self_.rank);
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (i != own && hosts[i].same_node(hosts[own]) && gpus[i].process == gpus[own].process)
        peers.push_back(gpus[i].ordinal);
    return peers;
  }

  // The GPU of the local rank; the only one, where the launcher has made one visible to each rank.
  [[nodiscard]] int device_of(int counted) const {
    const int local = local_rank_from_environment([](const char* name) {
                        return std::getenv(name);
                      }).value_or(counted);
    int gpus = 0;
    device::cuda_check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
    if (gpus == 1) return 0;
    if (local >= gpus)
      throw error(concat("rank ", self_.rank, " has local rank ", local, " on a host with ", gpus,
                         " GPUs: start at most as many ranks on a host as it has GPUs"));
    return local;
  }

  // Throws the same error on every rank if two ranks share a GPU.
  static void check_distinct(const std::vector<host_info>& hosts,
                             const std::vector<gpu_info>& gpus) {
    for (std::size_t b = 0; b < hosts.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (hosts[a].same_node(hosts[b]) &&
            std::strcmp(gpus[a].pci_bus_id, gpus[b].pci_bus_id) == 0)
          throw error(concat("ranks ", a, " and ", b, " have the same GPU, ", gpus[a].pci_bus_id,
                             " of ", hosts[a].name,
                             ", which NCCL does not support: start one rank for each GPU, or run "
                             "them as threads, which may share one (threads::launch)"));
  }

  bootstrap_session bootstrap_;
  const rank_assignment& self_;
  bootstrap_client& control_;
  std::optional<bootstrap_survivors> survivors_;
  int device_ = 0, workers_ = 1;
  std::array<ncclUniqueId, context_count> ids_;
  std::array<std::once_flag, context_count> made_;
  std::array<std::unique_ptr<nccl_context>, context_count> contexts_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
