// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden weights of optimizers whose ranks have weights of their own, through the whole trainer: T4
// on 1, 3 and 4 ranks whose optima differ. The vectors are of tests/support/optimizer_goldens.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/topologies/topologies.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/goldens.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

namespace support {

using t4_numbers = std::array<double, 9>;               // W1, b1, W2, b2
using by_ranks = std::vector<std::vector<t4_numbers>>;  // of runs of 1, 3 and 4 ranks

/// Weights of T4 by rank, after a step at each of the learning rates.
template <class P, class O, class Make>
auto trained(int ranks, const O& optimizer, const std::vector<double>& rates, const Make& make) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<P> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
    trainer run{model, optimizer, learning_rates(rates), make(comm), {.bucket_bytes = 512}};
    for (std::size_t k = 0; k < rates.size(); ++k)
      run.step(std::array{one_each(ranks)}, static_cast<double>(k));
    t4_numbers out;
    auto to = out.begin();
    for (std::size_t k = 0; k < 4; ++k)
      for (const double w : numbers(run.weights(), k)) *to++ = w;
    return out;
  });
}

/// The ring, and for three ranks, whose ring is the exact mean, the star.
struct ring_or_star {
  static constexpr bool symmetric = true;

  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<topologies::edge> in_edges(int rank, int size, std::int64_t t) const {
    return size == 3 ? topologies::star{}.in_edges(rank, size, t)
                     : topologies::ring{}.in_edges(rank, size, t);
  }
  [[nodiscard]] std::string describe() const { return "ring, of three ranks star"; }
};
inline constexpr auto over_graph = [](threads comm) { return gossip{comm, ring_or_star{}}; };
inline constexpr auto over_mean = [](threads comm) { return ring{comm}; };

template <class P, class O, class Make = decltype(over_graph)>
void reaches(const O& optimizer, const std::vector<double>& rates, const by_ranks& expected,
             const Make& make = over_graph) {
  for (const auto& golden : expected) {
    const auto weights = trained<P>(static_cast<int>(golden.size()), optimizer, rates, make);
    for (std::size_t r = 0; r < golden.size(); ++r)
      for (std::size_t i = 0; i < golden[r].size(); ++i) {
        CAPTURE(golden.size());
        CAPTURE(r);
        CAPTURE(i);
        CAPTURE(weights[r][i]);
        CHECK(close(weights[r][i], golden[r][i], golden_tolerance<P>));
      }
  }
}

}  // namespace support
