// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over two binary trees, half of the message each (Sanders, Speck and Traff 2009).
//
//   a rank with children in one tree is a leaf of the other (of an odd number of ranks, all but
//   rank 0); each half goes up to its root and down again chunk by chunk, so that all edges work at
//   once
//
// At most 2n numbers a rank and 2 ceil(log2 p) steps, plus one for each chunk after the first. A
// step of a rank is up to four exchanges, one after the other: with a single chunk in each tree, at
// most 4 ceil(log2 p) + 1 are on the critical path. The order of a sum depends on the half, so
// results differ between bucket sizes.
#pragma once

#include <array>
#include <bit>
#include <string>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// A node of the first tree. Index 0 is the root, and has one child; a node's level is above those
/// of its subtree.
struct tree_node {
  int parent = no_peer, level = 0;
  std::array<int, 2> child{no_peer, no_peer};

  static constexpr int root_level(int size) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
  }
  static constexpr int level_of(int index, int size) {
    return index == 0 ? root_level(size) : std::countr_zero(static_cast<unsigned>(index));
  }
  static constexpr tree_node of(int index, int size) {
    tree_node node{.level = level_of(index, size)};
    const int bit = 1 << node.level;
    if (index == 0) {
      node.child[0] = bit / 2;
      return node;
    }
    const int left = index ^ bit, up = left | bit << 1;
    node.parent = up < size ? up : left;
    if (bit == 1) return node;
    node.child[0] = index - bit / 2;
    for (int distance = bit / 2; distance > 0 && node.child[1] == no_peer; distance /= 2)
      if (index + distance < size) node.child[1] = index + distance;
    return node;
  }
};

/// One rank in one of the trees, in which a chunk climbs a level in each time step. What a step
/// sends was received in an earlier one, so within a step all ranks may take the edges in the same
/// order, and no cycle of ranks waits for one another.
struct tree_schedule {
  tree_node node;
  std::array<int, 2> child_level{};
  int first_chunk, chunk_count, root_level;

  template <class RankOf>  // the rank of a node's index
  tree_schedule(int index, int size, int first, int count, const RankOf& rank_of)
      : node(tree_node::of(index, size)),
        first_chunk(first),
        chunk_count(count),
        root_level(tree_node::root_level(size)) {
    for (std::size_t k = 0; k < 2; ++k) {
      if (node.child[k] == no_peer) continue;
      child_level[k] = tree_node::level_of(node.child[k], size);
      node.child[k] = rank_of(node.child[k]);
    }
    if (node.parent != no_peer) node.parent = rank_of(node.parent);
  }

  template <class Wire>
  void reduce(Wire& w, int step, int ranks) const {
    const int own = step - node.level, left = step - child_level[0], right = step - child_level[1];
    const int from_left = peer_of(left, node.child[0]), from_right = peer_of(right, node.child[1]);
    const int up = peer_of(own, node.parent);
    if (from_left != no_peer) w.add(no_peer, chunk(0), from_left, chunk(left));
    if (up != no_peer || from_right != no_peer)
      w.add(up, chunk(up == no_peer ? 0 : own), from_right,
            chunk(from_right == no_peer ? 0 : right));
    if (node.parent == no_peer && is_chunk(own)) w.average(chunk(own), ranks);
  }
  template <class Wire>
  void broadcast(Wire& w, int step) const {
    const int leaf = step - (root_level - 1) - root_level;  // the chunk that arrives at level 0
    const int own = leaf + node.level, left = leaf + child_level[0], right = leaf + child_level[1];
    const int from = peer_of(own, node.parent), to_left = peer_of(left, node.child[0]);
    if (from != no_peer || to_left != no_peer)
      w.pass(to_left, chunk(to_left == no_peer ? 0 : left), from, chunk(from == no_peer ? 0 : own));
    if (peer_of(right, node.child[1]) != no_peer)
      w.pass(node.child[1], chunk(right), no_peer, chunk(0));
  }

 private:
  [[nodiscard]] bool is_chunk(int c) const { return c >= 0 && c < chunk_count; }
  [[nodiscard]] int peer_of(int c, int peer) const { return is_chunk(c) ? peer : no_peer; }
  [[nodiscard]] chunk_range chunk(int c) const { return {first_chunk + c, first_chunk + c + 1}; }
};

}  // namespace detail::comm

/// Exact mean over two trees, pipelined in chunks.
template <class Communicator>
struct double_tree : exact_method<double_tree<Communicator>, Communicator> {
  /// Longest chunk. Unit: numbers. Range: 1 or more, else usage_error.
  std::size_t chunk;

  /// Sets `chunk`, which is checked at its first use.
  explicit double_tree(Communicator communicator, std::size_t chunk_size = 1u << 15)
      : exact_method<double_tree, Communicator>{{communicator}}, chunk(chunk_size) {}

  /// Scratch for a child's chunk, unless the transport has a fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return (n / static_cast<std::size_t>(chunks(n)) + 1) * sizeof(Real);
  }
  /// The chunks of both halves together.
  /// @throws usage_error if `chunk` is 0.
  [[nodiscard]] int chunks(std::size_t n) const {
    expects(chunk > 0, "double_tree: a chunk has at least one number");
    const std::size_t per_half = (n / 2 + chunk - 1) / chunk;
    return 2 * static_cast<int>(std::max<std::size_t>(1, per_half));
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("two trees over ", this->comm.size(), " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size(), r = this->comm.rank(), count = w.count() / 2;
    // The second tree is the mirror image, or, where that would leave ranks inside both, shifted.
    const auto second_rank = [p](int k) { return p % 2 == 0 ? p - 1 - k : (k + 1) % p; };
    const int second_index = p % 2 == 0 ? p - 1 - r : (r + p - 1) % p;
    const detail::comm::tree_schedule first(r, p, 0, count, [](int k) { return k; }),
        second(second_index, p, count, count, second_rank);
    for (int step = 0; step < count + 2 * first.root_level - 1; ++step) {
      first.reduce(w, step, p);
      second.reduce(w, step, p);
      first.broadcast(w, step);
      second.broadcast(w, step);
    }
    w.flush();
  }
};

}  // namespace cordee::inline CORDEE_ABI
