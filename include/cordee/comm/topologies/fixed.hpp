// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Topologies that are the same in every round, for every number of ranks that they support.
//
//   regular graphs                   1 / (degree + 1) for each neighbour and the rank itself
//   irregular ones (mesh2d, star)    1 / (1 + max(degree_i, degree_j)), after Metropolis and
//                                    Hastings: with 1 / (degree + 1) the mean would drift
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/comm/topologies/topology.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Adds an edge. Neighbours may coincide (on a ring of two, left is right): then their weights add.
/// The rank itself has no edge.
inline void add_edge(std::vector<topologies::edge>& in, int rank, int peer, double weight) {
  if (peer == rank) return;
  for (topologies::edge& e : in)
    if (e.peer == peer) {
      e.weight += weight;
      return;
    }
  in.push_back({peer, weight});
}

/// Edges of equal weight 1 / (degree + 1); coinciding neighbours count once.
inline std::vector<topologies::edge> equal_edges(int rank, std::initializer_list<int> peers) {
  std::vector<topologies::edge> in;
  for (const int peer : peers) add_edge(in, rank, peer, 0);
  for (topologies::edge& e : in) e.weight = 1 / (static_cast<double>(in.size()) + 1);
  return in;
}

/// rank modulo size, not negative.
constexpr int wrapped(int rank, int size) { return (rank % size + size) % size; }

/// The number of powers of two below `size`.
constexpr int powers_below(int size) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
}

constexpr bool is_power_of_two(int size) {
  return std::has_single_bit(static_cast<unsigned>(size));
}

/// `rows`, or if 0 the number of rows of the most nearly square grid of `size` ranks.
inline int rows_of(int rows, int size) {
  if (rows == 0)
    for (int r = 1; r * r <= size; ++r)
      if (size % r == 0) rows = r;
  expects(rows > 0 && size % rows == 0,
          "torus2d, mesh2d and torus_ring: the number of ranks must be a multiple of the number of "
          "rows; leave rows at 0 to have them chosen");
  return rows;
}

}  // namespace detail::comm

namespace topologies {

/// Both neighbours on a ring.
struct ring {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// One cycle of all ranks.
  [[nodiscard]] std::vector<int> dimensions(int size) const { return {size}; }
  /// The ranks before and after, with weight 1/3 each; in a ring of two, the other rank, with 1/2.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    return detail::comm::equal_edges(
        rank, {detail::comm::wrapped(rank - 1, size), detail::comm::wrapped(rank + 1, size)});
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "ring"; }
};

/// Four neighbours on a 2D grid that wraps around; with a prime number of ranks, a ring.
struct torus2d {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// Rows of ranks; 0: as many as make the grid most nearly square. Range: 0 or a divisor of the
  /// number of ranks, else usage_error.
  int rows = 0;

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// Rows and columns.
  /// @throws usage_error for `rows` outside its range.
  [[nodiscard]] std::vector<int> dimensions(int size) const {
    const int r = detail::comm::rows_of(rows, size);
    return {r, size / r};
  }
  /// The distinct ranks above, left, right and below, with weight 1 / (their number + 1) each.
  /// @throws usage_error for `rows` outside its range.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    const int r = detail::comm::rows_of(rows, size), c = size / r, y = rank / c, x = rank % c;
    const auto rank_at = [&](int row, int column) {
      return detail::comm::wrapped(row, r) * c + detail::comm::wrapped(column, c);
    };
    return detail::comm::equal_edges(
        rank, {rank_at(y - 1, x), rank_at(y, x - 1), rank_at(y, x + 1), rank_at(y + 1, x)});
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "2D torus"; }
};

/// Up to four neighbours on a 2D grid that does not wrap around; the ends of a single row have one.
struct mesh2d {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// Rows of ranks; 0: as many as make the grid most nearly square. Range: 0 or a divisor of the
  /// number of ranks, else usage_error.
  int rows = 0;

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// The existing ranks above, left, right and below, with weight 1 / (1 + the larger degree).
  /// @throws usage_error for `rows` outside its range.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    const int r = detail::comm::rows_of(rows, size), c = size / r;
    const auto degree = [&](int i) {
      return (i / c > 0) + (i / c < r - 1) + (i % c > 0) + (i % c < c - 1);
    };
    std::vector<edge> in;
    const auto add = [&](bool exists, int peer) {
      if (exists) in.push_back({peer, 1.0 / (1 + std::max(degree(rank), degree(peer)))});
    };
    add(rank / c > 0, rank - c);
    add(rank % c > 0, rank - 1);
    add(rank % c < c - 1, rank + 1);
    add(rank / c < r - 1, rank + c);
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "2D mesh"; }
};

/// Rank 0 exchanges with all others.
struct star {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// For rank 0 all other ranks, for others rank 0, with weight 1 / size.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    for (int peer = rank == 0 ? 1 : 0; peer < (rank == 0 ? size : 1); ++peer)
      in.push_back({peer, 1.0 / size});
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "star"; }
};

/// All ranks exchange with all others: the exact mean, in p - 1 messages a rank.
struct complete {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// One cycle of all ranks.
  [[nodiscard]] std::vector<int> dimensions(int size) const { return {size}; }
  /// All other ranks, with weight 1 / size.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    for (int peer = 0; peer < size; ++peer) detail::comm::add_edge(in, rank, peer, 1.0 / size);
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "complete graph"; }
};

/// Neighbours are the ranks whose numbers differ in one bit.
struct hypercube {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// log2(size) cycles of two.
  /// @throws usage_error unless `size` is a power of two.
  [[nodiscard]] std::vector<int> dimensions(int size) const {
    expects(detail::comm::is_power_of_two(size),
            "hypercube: the number of ranks must be a power of two; ring, torus2d and "
            "symmetric_exponential serve any number");
    return std::vector<int>(static_cast<std::size_t>(detail::comm::powers_below(size)), 2);
  }
  /// The log2(size) neighbours, with weight 1 / (log2(size) + 1).
  /// @throws usage_error unless `size` is a power of two.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    const auto d = static_cast<int>(dimensions(size).size());
    for (int bit = 0; bit < d; ++bit) in.push_back({rank ^ 1 << bit, 1.0 / (d + 1)});
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "hypercube"; }
};

/// Directed: receives from ranks 1, 2, 4, … before it, sends to ranks as far after it.
struct exponential {
  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// One cycle of all ranks.
  [[nodiscard]] std::vector<int> dimensions(int size) const { return {size}; }
  /// The ceil(log2(size)) ranks 1, 2, 4, … before, with equal weights, including the rank itself.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    const int distances = detail::comm::powers_below(size);
    for (int m = 0; m < distances; ++m)
      in.push_back({detail::comm::wrapped(rank - (1 << m), size), 1.0 / (distances + 1)});
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "directed exponential graph"; }
};

/// The mean of the exponential graph and its reverse.
struct symmetric_exponential {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// One cycle of all ranks.
  [[nodiscard]] std::vector<int> dimensions(int size) const { return {size}; }
  /// The ranks 1, 2, 4, … before and after, with half of the exponential graph's weights; those of
  /// coinciding ranks add up.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    const int distances = detail::comm::powers_below(size);
    for (int m = 0; m < distances; ++m)
      for (const int distance : {-(1 << m), 1 << m})
        detail::comm::add_edge(in, rank, detail::comm::wrapped(rank + distance, size),
                               0.5 / (distances + 1));
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "symmetric exponential graph"; }
};

}  // namespace topologies

}  // namespace cordee::inline CORDEE_ABI
