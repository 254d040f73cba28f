// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden weights of an optimizer through the whole trainer, on the toy set T4
// (docs/mathematics.md, 1.4).
#pragma once

#include <array>
#include <deque>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

// The precisions of goldens: fp32 with all tests alone, whose weights are fp64's but for rounding.
#if defined(CORDEE_ALL_TESTS)
#define GOLDEN_PRECISIONS fp64, fp32
#else
#define GOLDEN_PRECISIONS fp64
#endif

namespace support {

using t4_vectors = std::vector<std::vector<double>>;  // W1, b1, W2, b2

/// Weights of every rank after as many steps as there are rates.
template <class P, class O>
std::deque<t4_vectors> train_t4(int ranks, const O& optimizer,
                                const std::vector<double>& learning_rate,
                                trainer_options options = {}) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<P> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
    trainer run{model, optimizer, learning_rates(learning_rate), ring{comm}, options};
    for (std::size_t k = 0; k < learning_rate.size(); ++k)
      run.step(std::array{one_each(ranks)}, static_cast<double>(k));
    t4_vectors out;
    for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(run.weights(), k));
    return out;
  });
}

/// Golden values have twelve digits. fp32: three steps of some roundings of 2^-24 each.
template <class P>
inline constexpr double golden_tolerance = std::is_same_v<P, fp64> ? 1e-10 : 2e-6;

template <class P, class O>
void check_golden(const O& optimizer, const std::vector<double>& learning_rate,
                  const t4_vectors& expected, std::initializer_list<int> counts) {
  for (const int ranks : counts) {
    CAPTURE(ranks);
    for (const t4_vectors& weights : train_t4<P>(ranks, optimizer, learning_rate))
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < expected[k].size(); ++i) {
          CAPTURE(t4_table[k].name);
          CAPTURE(weights[k][i]);
          CHECK(close(weights[k][i], expected[k][i], golden_tolerance<P>));
        }
  }
}

}  // namespace support
