// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which rank this process is, as the launcher that started it says in its variables.
//
// The first complete pair of rank and size counts, and pairs that disagree are an error. Slurm's
// count only where nobody else's are: below mpirun they are those of mpirun's own daemon.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// "rank 1 of 4", and who says so.
struct standing {
  int rank = 0, size = 1;
  std::string said_by{};

  friend bool operator==(const standing& a, const standing& b) {
    return a.rank == b.rank && a.size == b.size;
  }
  [[nodiscard]] std::string str() const { return text(said_by, " says rank ", rank, " of ", size); }
};

/// Throws an error that prints both unless the two say the same.
inline void expect_same(const standing& a, const standing& b) {
  if (a == b) return;
  throw error(text(a.str(), ", but ", b.str(),
                   ": start every rank with the launcher that belongs to the program's library, "
                   "and unset the variables of another"));
}

namespace detail {

struct launcher {
  const char *name, *rank, *size, *local_rank;
};
inline constexpr std::array launchers{
    launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    launcher{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK"},
    launcher{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    launcher{"MVAPICH2's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
             "MV2_COMM_WORLD_LOCAL_RANK"},
    launcher{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};

inline int whole_number(const char* variable, std::string_view value) {
  int n = -1;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (status != std::errc{} || end != value.data() + value.size() || n < 0)
    throw error(text(variable, "=\"", value, "\" is not a whole number"));
  return n;
}

}  // namespace detail

/// What the launcher's variables say, or nothing; `variable(name)` is as std::getenv.
template <class Variable>
std::optional<standing> told_standing(const Variable& variable) {
  std::optional<standing> told;
  for (const detail::launcher& by : detail::launchers) {
    const char *rank = variable(by.rank), *size = variable(by.size);
    if (rank == nullptr || size == nullptr) continue;
    if (told && std::string_view(by.name) == "srun") break;
    const standing here{detail::whole_number(by.rank, rank), detail::whole_number(by.size, size),
                        text(by.name, " (", by.rank, ", ", by.size, ")")};
    if (told) expect_same(*told, here);
    if (!told) told = here;
  }
  return told;
}

/// Which rank of its machine this process is, as the launcher says whose pair counts, or nothing.
template <class Variable>
std::optional<int> told_local_rank(const Variable& variable) {
  for (const detail::launcher& by : detail::launchers)
    if (variable(by.rank) != nullptr && variable(by.size) != nullptr) {
      const char* const local = variable(by.local_rank);
      if (local == nullptr) return {};
      return detail::whole_number(by.local_rank, local);
    }
  return {};
}

struct address {
  std::string name;
  int port = 0;
};

/// Where MASTER_ADDR and MASTER_PORT say that ranks meet, or nothing. A torchrun whose agent
/// listens on that port itself leaves the next one to its ranks.
template <class Variable>
std::optional<address> told_address(const Variable& variable) {
  const char *name = variable("MASTER_ADDR"), *port = variable("MASTER_PORT"),
             *taken = variable("TORCHELASTIC_USE_AGENT_STORE");
  if (name == nullptr || port == nullptr) return {};
  const bool next = taken != nullptr && std::string_view(taken) == "True";
  return address{name, detail::whole_number("MASTER_PORT", port) + (next ? 1 : 0)};
}

}  // namespace cordee::inline CORDEE_ABI
