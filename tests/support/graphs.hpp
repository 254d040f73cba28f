// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every graph on every number of ranks it serves, and its matrix.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/comm/topology.hpp>

namespace support {

using namespace cordee;

using matrix = std::vector<std::vector<double>>;

/// Row i: what rank i gives what it hears.
template <Graph G>
matrix matrix_of(const G& graph, int ranks, std::int64_t round) {
  const auto p = static_cast<std::size_t>(ranks);
  matrix w(p, std::vector<double>(p));
  for (std::size_t i = 0; i < p; ++i) {
    w[i][i] = 1;
    const auto& heard = graph.in(static_cast<int>(i), ranks, round);
    for (const edge& e : std::span<const edge>(heard)) {
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

/// Hears the rank before it only: the least symmetric of all connected graphs.
inline user_graph directed_cycle(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  matrix w(p, std::vector<double>(p));
  for (std::size_t i = 0; i < p; ++i) {
    w[i][i] += 0.5;
    w[i][(i + p - 1) % p] += 0.5;
  }
  return user_graph::weighted(w);
}

inline constexpr int graph_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};

/// f(graph, ranks)
template <class F>
void with_graphs(const F& f, std::span<const int> sizes = graph_sizes) {
  for (const int p : sizes) {
    f(cycle{}, p);
    f(torus{}, p);
    f(grid{}, p);
    f(star{}, p);
    f(complete{}, p);
    f(exponential{}, p);
    f(symmetric_exponential{}, p);
    f(one_peer{}, p);
    f(lazy{one_peer{}, 0.3}, p);
    f(directed_cycle(p), p);
    if (p % 2 == 0) {
      f(torus{2}, p);
      f(odd_even{}, p);
      f(random_matching{3}, p);
      f(lazy{random_matching{3}, 0.5}, p);
    }
    if (std::has_single_bit(static_cast<unsigned>(p))) {
      f(hypercube{}, p);
      f(xor_matching{}, p);
    }
  }
}

}  // namespace support
