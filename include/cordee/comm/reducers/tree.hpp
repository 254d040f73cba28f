// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over a binomial tree: a reduction to rank 0, then a broadcast down the same edges.
//
//   round k up:   ranks whose lowest set bit is bit k send their sum to r - 2^k and are done
//   rank 0 divides by p;  round k down: ranks with bits 0 .. k clear send to r + 2^k
//
// One message up and one down each of p-1 edges, n numbers each; 2 ceil(log2 p) steps, for any p.
// If the transport adds while it receives, long buckets are cut (exact_method's pipeline_depth).
// The order of a sum depends only on the ranks, so results do not depend on bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// A binomial tree over `size` consecutive ranks; `rank` has index `index` among them, the root 0.
struct binomial_tree {
  int rank, index, size;

  /// Effects: the root holds the sum over the tree.
  template <class Wire>
  void reduce(Wire& w, chunk_range range) const {
    const int top = parent_distance();
    for (int k = 1; k < top; k *= 2)
      if (index + k < size) w.add(no_peer, range, rank + k, range);
    if (index != 0) w.add(rank - top, range, no_peer, range);
  }
  /// Effects: every rank of the tree holds the root's numbers.
  template <class Wire>
  void broadcast(Wire& w, chunk_range range) const {
    const int top = parent_distance();
    if (index != 0) w.pass(no_peer, range, rank - top, range);
    for (int k = top / 2; k > 0; k /= 2)
      if (index + k < size) w.pass(rank + k, range, no_peer, range);
  }

 private:
  // The lowest set bit of the index; of the root, a power of two not below `size`.
  [[nodiscard]] int parent_distance() const {
    int top = 1;
    while (top < size && (index & top) == 0) top *= 2;
    return top;
  }
};

}  // namespace detail::comm

/// Exact mean over a binomial tree rooted at rank 0.
template <class Communicator>
struct tree : exact_method<tree<Communicator>, Communicator> {
  static constexpr bool can_pipeline = true;  ///< See exact_method.

  /// Scratch for a child's vector, unless the transport has a fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  /// 1: whole vectors are sent, unless they are pipelined.
  [[nodiscard]] int chunks(std::size_t) const { return 1; }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("tree over ", this->comm.size(), " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size(), r = this->comm.rank(), rounds = w.count();
    const detail::comm::binomial_tree edges{r, r, p};
    for (int k = 0; k <= rounds; ++k) {  // chunk k goes up while chunk k-1 goes down
      const chunk_range up{k, k + 1}, down{k - 1, k};
      if (k < rounds) edges.reduce(w, up);
      if (k < rounds && r == 0) w.average(up, p);
      if (k > 0) edges.broadcast(w, down);
    }
    w.flush();
  }
};
template <class Communicator>
tree(Communicator) -> tree<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
