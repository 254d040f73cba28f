// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks share a machine, and its cores, as their processes say.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// What a rank says of where it runs. Machines may have the same name, so their start counts, too.
struct machine_card {
  char name[256], start[40];
  cpu_set_t cores;  // that it may run on

  [[gnu::cold]] static machine_card mine() {
    machine_card here{};
    gethostname(here.name, sizeof here.name - 1);
    if (const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); file >= 0) {
      if (read(file, here.start, sizeof here.start - 1) < 0) here.start[0] = '\0';
      close(file);
    }
    CPU_ZERO(&here.cores);
    sched_getaffinity(0, sizeof here.cores, &here.cores);
    return here;
  }
  [[nodiscard]] bool same_machine(const machine_card& other) const {
    return std::strcmp(name, other.name) == 0 && std::strcmp(start, other.start) == 0;
  }
};

/// The ranks of a rank's machine, how many of them come before it, and the cores that they may run
/// on, all together, whether the launcher has tied each to some of its own or not.
struct machine {
  int ranks = 0, before = 0, cores = 0;

  [[gnu::cold]] static machine of(int rank, std::span<const machine_card> all) {
    const machine_card& mine = all[static_cast<std::size_t>(rank)];
    cpu_set_t cores = mine.cores;
    machine here;
    for (int other = 0; other < static_cast<int>(all.size()); ++other) {
      const machine_card& theirs = all[static_cast<std::size_t>(other)];
      if (!mine.same_machine(theirs)) continue;
      ++here.ranks;
      here.before += other < rank ? 1 : 0;
      CPU_OR(&cores, &cores, &theirs.cores);
    }
    here.cores = CPU_COUNT(&cores);
    return here;
  }
  /// A rank's cores, at least one.
  [[nodiscard]] int share() const { return std::max(1, cores / std::max(1, ranks)); }
};

}  // namespace cordee::inline CORDEE_ABI::detail
