// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Trainers of every optimizer's and every reducer's own type: two steps on the toy set T4, on which
// the mean over ranks of the weights has a closed form.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

namespace support {

using namespace cordee;

inline constexpr double combination_learning_rate = 0.1;
/// A fixed type, so that all combinations of one optimizer share its instantiations.
struct constant_learning_rate {
  double operator()(double) const { return combination_learning_rate; }
};

/// The trainable weights of T4, one vector per rank.
using weights_by_rank = std::deque<std::vector<double>>;

inline std::vector<double> trainable_weights(span_on<double, cpu> plane) {
  std::vector<double> out;
  for (std::size_t k = 0; k < t4_center.size(); ++k)
    for (const double w : numbers(plane, k)) out.push_back(w);
  return out;
}

/// Two steps. Rank r's optimum is T4's plus a shift; the mean of the shifts is zero.
template <class O, class Make, class Communicator>
std::vector<double> two_steps(const O& optimizer, const Make& make, const Communicator& comm) {
  quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 0.5 * (comm.size() - 1))};
  trainer run{model, optimizer, constant_learning_rate{}, make(comm), {.bucket_bytes = 512}};
  for (int k = 0; k < 2; ++k)
    if (!run.step(std::array{one_each(comm.size())}, k).applied) return {};
  return trainable_weights(run.weights());
}
template <class O, class Make>
weights_by_rank two_steps_on(int ranks, const O& optimizer, const Make& make) {
  return on_ranks(ranks, [&](threads comm) { return two_steps(optimizer, make, comm); });
}

/// w after two steps of heavy-ball momentum on T4: m <- beta m + a (w - c);  w <- w - lr m
inline std::vector<double> heavy_ball(double beta) {
  std::vector<double> out;
  for (std::size_t k = 0; k < t4_center.size(); ++k)
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      double w = t4_start[k][i], m = 0;
      for (int step = 0; step < 2; ++step) {
        m = beta * m + t4_curvature[k][i] * (w - t4_center[k][i]);
        w -= combination_learning_rate * m;
      }
      out.push_back(w);
    }
  return out;
}

/// T4's initial weights.
inline std::vector<double> t4_initial_weights() {
  std::vector<double> out;
  for (std::size_t k = 0; k < t4_start.size(); ++k)
    for (std::size_t i = 0; i < t4_table[k].size; ++i) out.push_back(t4_start[k][i]);
  return out;
}

/// Weights that did not move fail for any tolerance below 1.
inline void check_moved_to(const std::vector<double>& x, const std::vector<double>& expected,
                           double tolerance) {
  CHECK(way_error(x, expected, t4_initial_weights()) <= tolerance);
}

/// sgd over an exact reducer: all ranks have the weights of the closed form, with equal bits.
template <class Make>
void check_exact(const char* name, const Make& make, double tolerance = 1e-14) {
  INFO(name);
  const weights_by_rank by_rank = two_steps_on(4, sgd{.momentum = 0.9}, make);
  for (const auto& weights : by_rank) CHECK(same_bits(weights, by_rank[0]));
  check_moved_to(by_rank[0], heavy_ball(0.9), tolerance);
}

/// Any optimizer whose ranks differ: the mean over ranks is that of the closed form.
template <class O, class Make>
void check_mean(const char* name, const O& optimizer, double beta, const Make& make) {
  INFO(name);
  const weights_by_rank by_rank = two_steps_on(4, optimizer, make);
  std::vector<double> mean(by_rank[0].size());
  for (const auto& weights : by_rank) {
    REQUIRE(weights.size() == mean.size());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weights[i] / 4;
  }
  check_moved_to(mean, heavy_ball(beta), 1e-14);
}

}  // namespace support
