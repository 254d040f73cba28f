// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every topology on every number of ranks that it serves, and its matrix.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/comm/topologies/topologies.hpp>

namespace support {

using namespace cordee;

using matrix = std::vector<std::vector<double>>;

/// Row i: the weights of rank i's mean.
template <Topology T>
matrix matrix_of(const T& topology, int ranks, std::int64_t round) {
  const auto p = static_cast<std::size_t>(ranks);
  matrix w(p, std::vector<double>(p));
  for (std::size_t i = 0; i < p; ++i) {
    w[i][i] = 1;
    const auto& edges = topology.in_edges(static_cast<int>(i), ranks, round);
    for (const topologies::edge& e : std::span<const topologies::edge>(edges)) {
      w[i][static_cast<std::size_t>(e.peer)] += e.weight;
      w[i][i] -= e.weight;
    }
  }
  return w;
}

inline matrix product(const matrix& a, const matrix& b) {
  matrix c(a.size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j)
      for (std::size_t k = 0; k < a.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}

/// Each rank receives from the one before it only: the least symmetric connected graph.
inline topologies::adjacency directed_ring(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  matrix w(p, std::vector<double>(p));
  for (std::size_t i = 0; i < p; ++i) {
    w[i][i] += 0.5;
    w[i][(i + p - 1) % p] += 0.5;
  }
  return topologies::adjacency::weighted(w);
}

inline constexpr int topology_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};

/// f(topology, ranks)
template <class F>
void for_each_topology(const F& f, std::span<const int> sizes = topology_sizes) {
  for (const int p : sizes) {
    f(topologies::ring{}, p);
    f(topologies::torus2d{}, p);
    f(topologies::mesh2d{}, p);
    f(topologies::star{}, p);
    f(topologies::complete{}, p);
    f(topologies::exponential{}, p);
    f(topologies::symmetric_exponential{}, p);
    f(topologies::one_peer{}, p);
    f(topologies::lazy{topologies::one_peer{}, 0.3}, p);
    f(directed_ring(p), p);
    if (p % 2 == 0) {
      f(topologies::torus2d{2}, p);
      f(topologies::odd_even{}, p);
      f(topologies::random_matching{3}, p);
      f(topologies::lazy{topologies::random_matching{3}, 0.5}, p);
    }
    if (std::has_single_bit(static_cast<unsigned>(p))) {
      f(topologies::hypercube{}, p);
      f(topologies::xor_matching{}, p);
    }
  }
}

}  // namespace support
