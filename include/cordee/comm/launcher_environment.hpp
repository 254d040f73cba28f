// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// This process's rank, from the environment variables that its launcher sets.
//
// The first launcher with both rank and size counts; another one that disagrees is an error.
// Slurm's variables count only where no other launcher's are set: below mpirun they are those of
// mpirun's own daemon.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// "rank 1 of 4", and where that is from.
struct rank_assignment {
  int rank = 0, size = 1;
  std::string source{};

  friend bool operator==(const rank_assignment& a, const rank_assignment& b) {
    return a.rank == b.rank && a.size == b.size;
  }
  [[nodiscard]] std::string describe() const {
    return concat("rank ", rank, " of ", size, " by ", source);
  }
};

/// A host's name or address and a port, as MASTER_ADDR and MASTER_PORT give them.
struct master_address {
  std::string name;
  int port = 0;
};

/// Throws an error that names both unless they are equal.
inline void expect_same(const rank_assignment& a, const rank_assignment& b) {
  if (a == b) return;
  throw error(concat("this process is ", a.describe(), ", but ", b.describe(),
                     ": start every rank with the launcher that belongs to the program's library, "
                     "and unset the variables of another"));
}

struct launcher_variables {
  const char *launcher, *rank, *size, *local_rank;
};
inline constexpr std::array known_launchers{
    launcher_variables{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    launcher_variables{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                       "OMPI_COMM_WORLD_LOCAL_RANK"},
    launcher_variables{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    launcher_variables{"MVAPICH2's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
                       "MV2_COMM_WORLD_LOCAL_RANK"},
    launcher_variables{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};

inline int parse_integer(const char* variable, std::string_view value) {
  int n = -1;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (status != std::errc{} || end != value.data() + value.size() || n < 0)
    throw error(concat(variable, "=\"", value, "\" is not an integer of 0 or more"));
  return n;
}

/// Empty where no launcher's variables are set; `variable(name)` is as std::getenv.
template <class Variable>
std::optional<rank_assignment> rank_from_environment(const Variable& variable) {
  std::optional<rank_assignment> first;
  for (const launcher_variables& l : known_launchers) {
    const char *rank = variable(l.rank), *size = variable(l.size);
    if (rank == nullptr || size == nullptr) continue;
    if (first && std::string_view(l.launcher) == "srun") break;
    const rank_assignment found{parse_integer(l.rank, rank), parse_integer(l.size, size),
                                concat(l.launcher, " (", l.rank, ", ", l.size, ")")};
    if (first) expect_same(*first, found);
    if (!first) first = found;
  }
  return first;
}

/// The rank on its node, from the launcher whose rank and size count; empty where it sets none.
template <class Variable>
std::optional<int> local_rank_from_environment(const Variable& variable) {
  for (const launcher_variables& l : known_launchers)
    if (variable(l.rank) != nullptr && variable(l.size) != nullptr) {
      const char* const local = variable(l.local_rank);
      if (local == nullptr) return {};
      return parse_integer(l.local_rank, local);
    }
  return {};
}

/// Empty unless MASTER_ADDR and MASTER_PORT are set. Where torchrun's agent listens on that port
/// itself (TORCHELASTIC_USE_AGENT_STORE), the next port is free for the ranks.
template <class Variable>
std::optional<master_address> master_from_environment(const Variable& variable) {
  const char *name = variable("MASTER_ADDR"), *port = variable("MASTER_PORT"),
             *agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  if (name == nullptr || port == nullptr) return {};
  const bool taken = agent != nullptr && std::string_view(agent) == "True";
  return master_address{name, parse_integer("MASTER_PORT", port) + (taken ? 1 : 0)};
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
