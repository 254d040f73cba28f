// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks share a node, its cores and its GPUs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cordee/core/config.hpp>
#include <cordee/core/host_name.hpp>
#include <cordee/device/local_rank.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Where a rank runs. Hosts may have the same name, so the boot's id is compared, too.
struct host_info {
  char name[256], boot_id[40];
  cpu_set_t cores;             // on which the process may run
  std::uint64_t visible_gpus;  // a hash of their PCI bus ids, or of CUDA_VISIBLE_DEVICES

  [[gnu::cold]] static host_info local() {
    host_info host{};
    core::host_name().copy(host.name, sizeof host.name - 1);
    if (const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); file >= 0) {
      if (read(file, host.boot_id, sizeof host.boot_id - 1) < 0) host.boot_id[0] = '\0';
      close(file);
    }
    CPU_ZERO(&host.cores);
    sched_getaffinity(0, sizeof host.cores, &host.cores);
    std::string gpus;
    if (device::list_visible_gpus != nullptr) gpus = device::list_visible_gpus();
    if (const char* const shown = std::getenv("CUDA_VISIBLE_DEVICES");
        gpus.empty() && shown != nullptr)
      gpus = shown;
    host.visible_gpus = gpus.empty() ? 0 : std::hash<std::string>{}(gpus);
    return host;
  }
  [[nodiscard]] bool same_node(const host_info& other) const {
    return std::strcmp(name, other.name) == 0 && std::strcmp(boot_id, other.boot_id) == 0;
  }
};

/// The ranks on a rank's node, its number among them, and the cores on which any of them may run,
/// whether or not the launcher has bound each rank to some.
struct node_info {
  int local_size = 0, local_rank = 0, cores = 0;
  int gpu_size = 0, gpu_rank = 0;  // among those that see the same GPUs

  [[gnu::cold]] static node_info of(int rank, std::span<const host_info> hosts) {
    const host_info& host = hosts[static_cast<std::size_t>(rank)];
    cpu_set_t cores = host.cores;
    node_info node;
    for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
      const host_info& other_host = hosts[static_cast<std::size_t>(other)];
      if (!host.same_node(other_host)) continue;
      ++node.local_size;
      node.local_rank += other < rank ? 1 : 0;
      CPU_OR(&cores, &cores, &other_host.cores);
      if (host.visible_gpus != other_host.visible_gpus) continue;
      ++node.gpu_size;
      node.gpu_rank += other < rank ? 1 : 0;
    }
    node.cores = CPU_COUNT(&cores);
    return node;
  }
  /// At least one.
  [[nodiscard]] int cores_per_rank() const { return std::max(1, cores / std::max(1, local_size)); }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
