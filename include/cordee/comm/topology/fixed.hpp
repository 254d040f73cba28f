// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs that are the same in every round, for any number of ranks that they can serve.
//
//   regular graphs                 1 / (degree + 1) for each neighbour and oneself
//   irregular ones (grid, star)    1 / (1 + max(degree_i, degree_j)), after Metropolis and
//   Hastings:
//                                  with 1 / (degree + 1) the mean of the ranks would drift
//
// A graph that looks alike from every rank says the `sides` of the group it lives on (ranks are its
// elements, row-major), and its eigenvalues are sums over the edges of rank 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/comm/graph.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Neighbours may coincide (on a cycle of two, left is right): then their weights add. Oneself
/// needs no edge.
inline void hear(std::vector<edge>& in, int rank, int peer, double weight) {
  if (peer == rank) return;
  for (edge& e : in)
    if (e.peer == peer) {
      e.weight += weight;
      return;
    }
  in.push_back({peer, weight});
}

/// Coinciding neighbours count once, and everybody weighs the same.
inline std::vector<edge> evenly(int rank, std::initializer_list<int> peers) {
  std::vector<edge> in;
  for (const int peer : peers) hear(in, rank, peer, 0);
  for (edge& e : in) e.weight = 1 / (static_cast<double>(in.size()) + 1);
  return in;
}

constexpr int around(int rank, int size) { return (rank % size + size) % size; }

/// The number of distances 1, 2, 4, … below `size`.
constexpr int doublings(int size) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
}

constexpr bool is_power_of_two(int size) {
  return std::has_single_bit(static_cast<unsigned>(size));
}

/// As given, or as near to a square as the number of ranks allows.
inline int rows_of(int rows, int size) {
  if (rows == 0)
    for (int r = 1; r * r <= size; ++r)
      if (size % r == 0) rows = r;
  expects(rows > 0 && size % rows == 0,
          "torus, grid and torus_ring: the number of ranks must be a multiple of the number of "
          "rows; leave "
          "rows at 0 to have them chosen");
  return rows;
}

}  // namespace detail

/// Both neighbours on a ring.
struct cycle {
  static constexpr bool symmetric = true;

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<int> sides(int size) const { return {size}; }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    return detail::evenly(rank, {detail::around(rank - 1, size), detail::around(rank + 1, size)});
  }
  [[nodiscard]] std::string describe() const { return "cycle"; }
};

/// Four neighbours on a grid whose ends meet; a prime number of ranks makes it a cycle.
struct torus {
  static constexpr bool symmetric = true;

  int rows = 0;  // 0: as near to a square as can be

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<int> sides(int size) const {
    const int r = detail::rows_of(rows, size);
    return {r, size / r};
  }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    const int r = detail::rows_of(rows, size), c = size / r, y = rank / c, x = rank % c;
    const auto at = [&](int row, int column) {
      return detail::around(row, r) * c + detail::around(column, c);
    };
    return detail::evenly(rank, {at(y - 1, x), at(y, x - 1), at(y, x + 1), at(y + 1, x)});
  }
  [[nodiscard]] std::string describe() const { return "torus"; }
};

/// Two to four neighbours on a grid whose ends do not meet.
struct grid {
  static constexpr bool symmetric = true;

  int rows = 0;  // 0: as near to a square as can be

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    const int r = detail::rows_of(rows, size), c = size / r;
    const auto degree = [&](int i) {
      return (i / c > 0) + (i / c < r - 1) + (i % c > 0) + (i % c < c - 1);
    };
    std::vector<edge> in;
    const auto meet = [&](bool there, int peer) {
      if (there) in.push_back({peer, 1.0 / (1 + std::max(degree(rank), degree(peer)))});
    };
    meet(rank / c > 0, rank - c);
    meet(rank % c > 0, rank - 1);
    meet(rank % c < c - 1, rank + 1);
    meet(rank / c < r - 1, rank + c);
    return in;
  }
  [[nodiscard]] std::string describe() const { return "grid"; }
};

/// Everybody meets rank 0.
struct star {
  static constexpr bool symmetric = true;

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    for (int peer = rank == 0 ? 1 : 0; peer < (rank == 0 ? size : 1); ++peer)
      in.push_back({peer, 1.0 / size});
    return in;
  }
  [[nodiscard]] std::string describe() const { return "star"; }
};

/// Everybody meets everybody: the exact mean, at the price of p - 1 messages a rank.
struct complete {
  static constexpr bool symmetric = true;

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<int> sides(int size) const { return {size}; }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    for (int peer = 0; peer < size; ++peer) detail::hear(in, rank, peer, 1.0 / size);
    return in;
  }
  [[nodiscard]] std::string describe() const { return "complete graph"; }
};

/// The ranks whose number differs in one bit.
struct hypercube {
  static constexpr bool symmetric = true;

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<int> sides(int size) const {
    expects(detail::is_power_of_two(size),
            "hypercube: the number of ranks must be a power of two; cycle, torus and "
            "symmetric_exponential serve any number");
    return std::vector<int>(static_cast<std::size_t>(detail::doublings(size)), 2);
  }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    const auto d = static_cast<int>(sides(size).size());
    for (int bit = 0; bit < d; ++bit) in.push_back({rank ^ 1 << bit, 1.0 / (d + 1)});
    return in;
  }
  [[nodiscard]] std::string describe() const { return "hypercube"; }
};

/// Directed: hears the ranks 1, 2, 4, … before it, and is heard by those as far behind.
struct exponential {
  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<int> sides(int size) const { return {size}; }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    const int distances = detail::doublings(size);
    for (int m = 0; m < distances; ++m)
      in.push_back({detail::around(rank - (1 << m), size), 1.0 / (distances + 1)});
    return in;
  }
  [[nodiscard]] std::string describe() const { return "directed exponential graph"; }
};

/// The mean of the exponential graph and its reverse.
struct symmetric_exponential {
  static constexpr bool symmetric = true;

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<int> sides(int size) const { return {size}; }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t) const {
    std::vector<edge> in;
    const int distances = detail::doublings(size);
    for (int m = 0; m < distances; ++m)
      for (const int distance : {-(1 << m), 1 << m})
        detail::hear(in, rank, detail::around(rank + distance, size), 0.5 / (distances + 1));
    return in;
  }
  [[nodiscard]] std::string describe() const { return "symmetric exponential graph"; }
};

}  // namespace cordee::inline CORDEE_ABI
