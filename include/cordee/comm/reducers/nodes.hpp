// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks share a node, where messages are cheap. Ranks of a node are consecutive.
//
//   nodes{4}                    four ranks a node, the last node may have fewer
//   nodes{.sizes = {4, 3, 4}}   that many ranks on each node
//   nodes::by_host(comm)        by the names of the ranks' hosts
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/host_name.hpp>

namespace cordee::inline CORDEE_ABI {

/// Consecutive ranks that share a node.
struct nodes {
  /// Ranks on each node; the last node may have fewer. Range: 1 or more, else usage_error.
  int ranks_per_node = 1;
  /// Ranks on each node, used instead of `ranks_per_node` unless empty. Range: 1 or more each,
  /// which add up to the communicator's size, else usage_error.
  std::vector<int> sizes{};

  /// Derives nodes from the ranks' host names. Collective: every rank of the communicator calls it.
  /// @throws error if the ranks of a host are not consecutive, or a host has no name.
  template <class Communicator>
  [[nodiscard]] static nodes by_host(const Communicator& comm);

  /// Number of nodes for that many ranks.
  /// @throws usage_error if `ranks_per_node` is below 1.
  [[nodiscard]] int count(int ranks) const {
    expects(ranks_per_node > 0, "nodes: a node has at least one rank");
    return sizes.empty() ? (ranks + ranks_per_node - 1) / ranks_per_node
                         : static_cast<int>(sizes.size());
  }
  /// The first rank of each node, and `ranks` at the end: count(ranks) + 1 numbers.
  /// @throws usage_error for sizes outside their range.
  [[nodiscard]] std::vector<int> starts(int ranks) const {
    std::vector<int> start{0};
    for (const int size : sizes) {
      expects(size > 0, "nodes: a node has at least one rank");
      start.push_back(start.back() + size);
    }
    for (int left = sizes.empty() ? count(ranks) : 0; left > 0; --left)
      start.push_back(left > 1 ? start.back() + ranks_per_node : ranks);
    if (start.back() != ranks)
      throw usage_error(
          concat("nodes: the sizes add up to ", start.back(), " ranks, not to ", ranks));
    return start;
  }
};

namespace detail::comm {

/// 53 bits of a hash, which a double holds exactly.
inline double host_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<double>(hash >> 11);
}

/// From each rank's host. Throws unless the ranks of a host are consecutive.
[[gnu::cold]] inline nodes nodes_from_hosts(const std::vector<double>& host) {
  nodes result;
  for (std::size_t r = 0; r < host.size(); ++r) {
    if (r > 0 && host[r] == host[r - 1]) {
      ++result.sizes.back();
      continue;
    }
    for (std::size_t earlier = 0; earlier < r; ++earlier)
      if (host[earlier] == host[r])
        throw error(concat("ranks ", earlier, " and ", r, " share a host, and rank ", r - 1,
                           " does not: start consecutive ranks on one host (mpirun --map-by slot, "
                           "srun -m block), or reorder them with a subgroup"));
    result.sizes.push_back(1);
  }
  return result;
}

}  // namespace detail::comm

template <class Communicator>
nodes nodes::by_host(const Communicator& comm) {
  const std::string name = detail::core::host_name();
  if (name.empty()) throw error("nodes: this host has no name");
  const double hash = detail::comm::host_hash(name);
  return detail::comm::nodes_from_hosts(detail::comm::gather_host(comm, std::span(&hash, 1)));
}

}  // namespace cordee::inline CORDEE_ABI
