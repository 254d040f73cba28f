// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Machines for simulations: which links a message between two ranks uses. Links are one-way.
//
//   fat_tree    GPUs in nodes in racks under one core switch; a message goes up to the lowest level
//               that contains both ranks, and down
//   torus       one router per rank, with two neighbors in each dimension; dimension by dimension,
//               the shorter way round; the first dimension grows with the ranks, in whole planes of
//               the last two
//   dragonfly   routers of a group are connected in pairs, and so are groups, by one link each way;
//               minimal routes: to the group's gateway, across, to the router
//
// read_machine() reads a file of names and numbers, one name a line:
//
//   fat_tree                    # or torus, or dragonfly
//   gpu 1e-6 450e9              # latency in seconds, bytes a second
//   node 2e-6 50e9
//   rack 1e-6 800e9
//   gpus_per_node 8
//   nodes_per_rack 16
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <istream>
#include <limits>
#include <variant>
#include <vector>

#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/machine_file.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/option_range.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

struct machine_size {
  const char* name;
  int value;
};
/// Throws usage_error for a size below 1, or more links or GPUs than an int counts.
[[gnu::cold]] inline void expects_sizes(const char* machine,
                                        std::initializer_list<machine_size> sizes, double count) {
  for (const auto& [name, value] : sizes)
    if (value < 1) core::refuse(machine, name, value, "1 or more");
  if (!(count <= std::numeric_limits<int>::max()))
    throw usage_error(
        concat(machine, ": ", sizes.begin()->name, " and ", (sizes.end() - 1)->name,
               " make more than 2^31 - 1 links or GPUs of a part; make them smaller"));
}

}  // namespace detail::comm

/// GPUs in nodes in racks, connected by one core switch.
struct fat_tree {
  /// Uplink and downlink of each GPU, node and rack.
  link_parameters gpu{}, node{}, rack{};
  /// Sizes of nodes and racks. Range: 1 or more, and at most 2^31 - 1 GPUs a rack, else
  /// usage_error.
  int gpus_per_node = 8, nodes_per_rack = 16;

  /// All links, by number: uplink and downlink of each GPU, each node and each rack.
  /// @throws usage_error for a size or a link's speed outside its range.
  [[nodiscard]] std::vector<link_parameters> links(int ranks) const {
    detail::comm::expects_links("fat_tree", {{".gpu", gpu}, {".node", node}, {".rack", rack}});
    detail::comm::expects_sizes(
        "fat_tree", {{".gpus_per_node", gpus_per_node}, {".nodes_per_rack", nodes_per_rack}},
        std::max(6.0 * ranks, 1.0 * gpus_per_node * nodes_per_rack));
    std::vector<link_parameters> all(2 * static_cast<std::size_t>(ranks), gpu);
    all.insert(all.end(), 2 * static_cast<std::size_t>(count(ranks, gpus_per_node)), node);
    all.insert(all.end(), 2 * static_cast<std::size_t>(count(ranks, gpus_per_rack())), rack);
    return all;
  }
  /// Appends the numbers of the links that a message crosses to `path`. Requires two different
  /// ranks, and sizes that links() accepts.
  void route(int from, int to, int ranks, std::vector<int>& path) const {
    const int nodes_at = 2 * ranks, racks_at = nodes_at + 2 * count(ranks, gpus_per_node);
    const int from_node = from / gpus_per_node, to_node = to / gpus_per_node;
    const int from_rack = from / gpus_per_rack(), to_rack = to / gpus_per_rack();
    path.push_back(2 * from);
    if (from_node != to_node) path.push_back(nodes_at + 2 * from_node);
    if (from_rack != to_rack) {
      path.push_back(racks_at + 2 * from_rack);
      path.push_back(racks_at + 2 * to_rack + 1);
    }
    if (from_node != to_node) path.push_back(nodes_at + 2 * to_node + 1);
    path.push_back(2 * to + 1);
  }

 private:
  [[nodiscard]] int gpus_per_rack() const { return gpus_per_node * nodes_per_rack; }
  static int count(int ranks, int size) { return (ranks + size - 1) / size; }
};

/// One router per rank, with two neighbors in each dimension.
struct torus {
  link_parameters link{};  ///< Between neighbors, one in each direction.
  /// Ranks in each dimension, row-major. The first is ignored: it is as large as the ranks need, in
  /// whole planes. Range: 1 or more, else usage_error.
  std::array<int, 3> dimensions{1, 1, 1};

  /// All links, by number: six from each router.
  /// @throws usage_error for a size or the link's speed outside its range.
  [[nodiscard]] std::vector<link_parameters> links(int ranks) const {
    detail::comm::expects_links("torus", {{".link", link}});
    detail::comm::expects_sizes(
        "torus", {{".dimensions[1]", dimensions[1]}, {".dimensions[2]", dimensions[2]}},
        6.0 * (ranks + 1.0 * dimensions[1] * dimensions[2]));
    return std::vector<link_parameters>(
        2 * dimensions.size() * static_cast<std::size_t>(routers(ranks)), link);
  }
  /// Appends the numbers of the links that a message crosses to `path`. Requires two different
  /// ranks, and sizes that links() accepts.
  void route(int from, int to, int ranks, std::vector<int>& path) const {
    constexpr int count = 3;
    int at = from, stride = 1;
    for (int d = count - 1; d >= 0; --d) {
      const int size = d == 0 ? routers(ranks) / stride : dimensions[static_cast<std::size_t>(d)];
      const int ahead = ((to / stride - from / stride) % size + size) % size;
      const bool up = 2 * ahead <= size;
      for (int hops = up ? ahead : size - ahead; hops > 0; --hops) {
        path.push_back(2 * (at * count + d) + (up ? 0 : 1));
        const int here = at / stride % size, next = (here + (up ? 1 : size - 1)) % size;
        at += (next - here) * stride;
      }
      stride *= size;
    }
  }

 private:
  // Whole planes, of which the ranks are the first routers.
  [[nodiscard]] int routers(int ranks) const {
    const int plane = dimensions[1] * dimensions[2];
    return (ranks + plane - 1) / plane * plane;
  }
};

/// Groups of routers; the routers of a group are connected in pairs, and so are the groups.
struct dragonfly {
  /// Links of a GPU (up and down), between two routers of a group, and between two groups.
  link_parameters gpu{}, local{}, global{};
  /// Sizes of routers and groups. Range: 1 or more, and at most 2^31 - 1 links, else usage_error.
  int gpus_per_router = 4, routers_per_group = 8;

  /// All links, by number: uplink and downlink of each GPU, between the routers of each group,
  /// between groups.
  /// @throws usage_error for a size or a link's speed outside its range.
  [[nodiscard]] std::vector<link_parameters> links(int ranks) const {
    detail::comm::expects_links("dragonfly",
                                {{".gpu", gpu}, {".local", local}, {".global", global}});
    const double group = 1.0 * gpus_per_router * routers_per_group, most = ranks / group + 1;
    detail::comm::expects_sizes(
        "dragonfly",
        {{".gpus_per_router", gpus_per_router}, {".routers_per_group", routers_per_group}},
        std::max(group, 2.0 * ranks + most * (1.0 * routers_per_group * routers_per_group + most)));
    const auto g = static_cast<std::size_t>(groups(ranks));
    const auto r = static_cast<std::size_t>(routers_per_group);
    std::vector<link_parameters> all(2 * static_cast<std::size_t>(ranks), gpu);
    all.insert(all.end(), g * r * r, local);
    all.insert(all.end(), g * g, global);
    return all;
  }
  /// Appends the numbers of the links that a message crosses to `path`. Requires two different
  /// ranks, and sizes that links() accepts.
  void route(int from, int to, int ranks, std::vector<int>& path) const {
    const int locals_at = 2 * ranks, g = groups(ranks);
    const int globals_at = locals_at + g * routers_per_group * routers_per_group;
    const auto hop = [&](int group, int a, int b) {  // between routers of a group
      if (a != b)
        path.push_back(locals_at + (group * routers_per_group + a) * routers_per_group + b);
    };
    const int a = from / gpus_per_router, b = to / gpus_per_router;
    const int from_group = a / routers_per_group, to_group = b / routers_per_group;
    path.push_back(2 * from);
    if (from_group == to_group) {
      hop(from_group, a % routers_per_group, b % routers_per_group);
    } else {
      hop(from_group, a % routers_per_group, to_group % routers_per_group);
      path.push_back(globals_at + from_group * g + to_group);
      hop(to_group, from_group % routers_per_group, b % routers_per_group);
    }
    path.push_back(2 * to + 1);
  }

 private:
  [[nodiscard]] int groups(int ranks) const {
    const int size = gpus_per_router * routers_per_group;
    return (ranks + size - 1) / size;
  }
};

/// Any of these machines, for `simulated::options::contended`.
using machine = std::variant<fat_tree, torus, dragonfly>;

/// The machine described by a file.
/// @throws error for a file of another format.
inline machine read_machine(std::istream& in) {
  detail::comm::machine_file file(in);
  machine result;
  if (file.kind() == "fat_tree")
    result = fat_tree{file.speed("gpu"), file.speed("node"), file.speed("rack"),
                      file.count("gpus_per_node"), file.count("nodes_per_rack")};
  else if (file.kind() == "torus")
    result = torus{file.speed("link"), file.dimensions("dimensions")};
  else if (file.kind() == "dragonfly")
    result = dragonfly{file.speed("gpu"), file.speed("local"), file.speed("global"),
                       file.count("gpus_per_router"), file.count("routers_per_group")};
  else
    throw error(concat("machine: \"", file.kind(), "\" is none of fat_tree, torus, dragonfly"));
  file.expect_end();
  return result;
}

}  // namespace cordee::inline CORDEE_ABI
