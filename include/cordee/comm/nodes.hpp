// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks share a node, so that messages between them are cheap: neighbours do.
//
//   nodes{4}: four a node, the last may have fewer;  nodes{.sizes = {4, 3, 4}}: each its own;
//   nodes_of(link): as the machines' names say
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <cordee/comm/agree.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

struct nodes {
  int each = 1;
  std::vector<int> sizes{};

  [[nodiscard]] int count(int ranks) const {
    expects(each > 0, "nodes: a node has at least one rank");
    return sizes.empty() ? (ranks + each - 1) / each : static_cast<int>(sizes.size());
  }
  /// Where each node's ranks begin, and at last where all end.
  [[nodiscard]] std::vector<int> starts(int ranks) const {
    std::vector<int> start{0};
    for (const int size : sizes) {
      expects(size > 0, "nodes: a node has at least one rank");
      start.push_back(start.back() + size);
    }
    for (int left = sizes.empty() ? count(ranks) : 0; left > 0; --left)
      start.push_back(left > 1 ? start.back() + each : ranks);
    if (start.back() != ranks)
      throw misuse(text("nodes: the sizes add up to ", start.back(), " ranks, not to ", ranks));
    return start;
  }
};

namespace detail {

/// Of 53 bits, which a double holds.
inline double number_called(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<double>(hash >> 11);
}

/// From each rank's machine.
[[gnu::cold]] inline nodes nodes_from(const std::vector<double>& machine) {
  nodes all;
  for (std::size_t r = 0; r < machine.size(); ++r) {
    if (r > 0 && machine[r] == machine[r - 1]) {
      ++all.sizes.back();
      continue;
    }
    for (std::size_t before = 0; before < r; ++before)
      if (machine[before] == machine[r])
        throw error(text("ranks ", before, " and ", r, " share a machine, and rank ", r - 1,
                         " does not: start neighbours on one machine (mpirun --map-by slot, srun "
                         "-m block), or put them in order with a group"));
    all.sizes.push_back(1);
  }
  return all;
}

}  // namespace detail

/// By the names of the machines; every rank of the link calls it.
template <class Link>
nodes nodes_of(const Link& link) {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) throw error("nodes_of: this machine has no name");
  const double mine = detail::number_called(name);
  return detail::nodes_from(detail::everybodys(link, std::span(&mine, 1)));
}

}  // namespace cordee::inline CORDEE_ABI
