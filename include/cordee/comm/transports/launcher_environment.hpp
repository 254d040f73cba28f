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
  std::string variable{};  // that has given the name
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

inline constexpr int most_ranks = 1 << 20;

/// The number of an environment variable, all of whose text has to be one of this range. `why`:
/// what the range follows from, for the error.
[[nodiscard, gnu::cold]] inline int parse_integer(std::string_view variable, std::string_view value,
                                                  int lowest, int highest,
                                                  std::string_view why = "") {
  int n = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (status != std::errc{} || end != value.data() + value.size() || n < lowest || n > highest)
    throw error(
        concat(variable, "=\"", value, "\" is not an integer from ", lowest, " to ", highest, why));
  return n;
}

/// Empty where no launcher's variables are set; `variable(name)` is as std::getenv.
template <class Variable>
std::optional<rank_assignment> rank_from_environment(const Variable& variable) {
  std::optional<rank_assignment> first;
  for (const launcher_variables& l : known_launchers) {
    const char *rank = variable(l.rank), *ranks = variable(l.size);
    if (rank == nullptr || ranks == nullptr) continue;
    if (first && std::string_view(l.launcher) == "srun") break;
    const int size = parse_integer(l.size, ranks, 1, most_ranks);
    const rank_assignment found{
        parse_integer(l.rank, rank, 0, size - 1, concat(", as ", l.size, " is ", size)), size,
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
      return parse_integer(l.local_rank, local, 0, most_ranks - 1);
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
  const int first = parse_integer("MASTER_PORT", port, 1, taken ? 65534 : 65535,
                                  taken ? ", as the ranks meet at the next port" : "");
  return master_address{name, first + (taken ? 1 : 0), "MASTER_ADDR"};
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
