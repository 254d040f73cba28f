// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/power_sgd.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

using vector = std::vector<double>;

/// Of tests/support/power_sgd_goldens.py.
parameter_list golden_list() {
  parameter_list list;
  return list.add("matrix", {6, 8})
      .add("kernel", {8, 2, 3, 3})
      .add("bias", {6}, kind::bias)
      .add("small", {2, 2});
}
constexpr cordee::detail::comm::power_sgd_options golden_options{.rank = 2,
                                                                 .min_compression_rate = 1.2};

/// Weights of every rank after so many steps of the golden program's quadratic loss.
auto trained(int ranks, int steps, std::size_t bucket_bytes,
             const cordee::detail::comm::power_sgd_options& options = golden_options) {
  return on_ranks(ranks, [&](threads comm) {
    custom_model<int, fp64> model{
        golden_list(),
        [](const int& rank, model_pass<double, cpu>& pass) {
          for (std::size_t k = 0; pass.trains() && k < 4; ++k) {
            const auto w = pass.weights(k), g = pass.gradient(k);
            for (std::size_t i = 0; i < w.size; ++i) {
              const double at = static_cast<double>(i), shift = 0.7 * rank + static_cast<double>(k);
              g[i] += pass.loss_weight() * (1 + 0.5 * static_cast<double>(i % 3)) *
                      (w[i] - std::sin(at + shift));
            }
          }
          return metrics{.loss = 0, .count = 1};
        },
        cpu{1},
        [](const segment& s, span_on<double, cpu> to, std::uint64_t) {
          const std::string names[]{"matrix", "kernel", "bias", "small"};
          const auto k = static_cast<double>(std::find(names, names + 4, s.name) - names);
          for (std::size_t i = 0; i < to.size; ++i)
            to[i] = std::cos(0.3 * static_cast<double>(i) + k);
        }};
    trainer run{model,
                sgd{.momentum = 0},
                [](double) { return 0.2; },
                power_sgd{ring{comm}, options},
                {.bucket_bytes = bucket_bytes}};
    for (int k = 0; k < steps; ++k) run.step(comm.rank(), 1, k);
    return vector(run.weights().begin(), run.weights().end());
  });
}

/// What `steps` calls of mix make of x(rank, step), a bucket of one matrix (rows, cols) and 5
/// numbers; then the residual of the matrix.
struct mixed {
  std::vector<vector> means;
  vector residual;
};
template <class X>
auto mix(int ranks, int rows, int cols, const cordee::detail::comm::power_sgd_options& options,
         int steps, const X& x) {
  return on_ranks(ranks, [&](threads comm) {
    parameter_list list;
    list.add("matrix", {rows, cols}).add("vector", {5});
    const bucket layout{.offset = 0, .size = list.plane_size(), .segments = list.segments()};
    const power_sgd reducer{ring{comm}, options};
    vector error(layout.size), q(layout.size);
    std::vector<std::byte> scratch(reducer.template scratch<double>(layout.size) + 8,
                                   std::byte{0xa5});
    mixed out;
    for (int k = 0; k < steps; ++k) {
      vector v = x(comm.rank(), k);
      v.resize(layout.size);
      reducer.mix(bucket_view<double, cpu, 2>{&layout,
                                              {v.data(), v.size()},
                                              {span_on<double, cpu>{error.data(), error.size()},
                                               span_on<double, cpu>{q.data(), q.size()}},
                                              {scratch.data(), scratch.size() - 8}},
                  step_info{.step = k}, cpu::stream{});
      for (std::size_t i = 0; i < 8; ++i) CHECK(scratch[scratch.size() - 1 - i] == std::byte{0xa5});
      out.means.push_back(v);
    }
    out.residual = error;
    return out;
  });
}

/// A matrix of that rank, whose columns are in one space on all ranks, and 5 numbers behind its
/// padding.
vector of_rank(int rank, int step, std::size_t rows, std::size_t cols, std::size_t r) {
  random_sequence own(4, purpose::test, static_cast<std::uint64_t>(rank),
                      static_cast<std::uint64_t>(step));
  random_sequence common(5, purpose::test, 0, static_cast<std::uint64_t>(step));
  vector right(r * cols), x((rows * cols + 63) / 64 * 64 + 5);
  for (double& v : right) v = own.normal();
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < r; ++k) {
      const double left = common.normal();
      for (std::size_t j = 0; j < cols; ++j) x[i * cols + j] += left * right[k * cols + j];
    }
  for (std::size_t i = x.size() - 5; i < x.size(); ++i) x[i] = own.normal();
  return x;
}

}  // namespace

TEST_CASE("power_sgd: golden weights through the trainer, on 1, 3 and 4 ranks") {
  // First, last, and sum of w[i] cos(i) of each tensor: tests/support/power_sgd_goldens.py
  const std::vector<std::pair<int, std::array<std::array<double, 3>, 4>>> goldens{
      {1,
       {{{0.262144, 0.119541356731, 0.653907690933},
         {0.762521422636, -0.421614397627, 51.7862816996},
         {0.561840165848, 0.582642908767, 2.2592938754},
         {-0.155394348362, -0.396467199791, 0.211386140471}}}},
      {3,
       {{{0.556179459129, -0.46390297093, 12.4610603427},
         {0.728920627652, 0.135052573906, 50.8049918653},
         {0.15681721558, 0.750683753517, 0.936619986373},
         {-0.589174536612, 0.0615911026913, -0.913251300618}}}},
      {4,
       {{{0.634356341448, -0.600226675327, 13.9434155361},
         {0.569067492942, 0.340438370444, 38.6998737058},
         {-0.0606023564101, 0.628142611626, 0.253241847363},
         {-0.677540530277, 0.177528381598, -1.15597059352}}}}};
  const parameter_list list = golden_list();
  for (const auto& [ranks, golden] : goldens)
    for (const std::size_t bucket_bytes : {std::size_t{0}, std::size_t{1}}) {
      CAPTURE(ranks);
      const auto by_rank = trained(ranks, 6, bucket_bytes);
      for (const vector& weights : by_rank) {
        CHECK(same_bits(weights, by_rank[0]));
        for (std::size_t k = 0; k < 4; ++k) {
          const segment& t = list.segments()[k];
          double sum = 0;
          for (std::size_t i = 0; i < t.size; ++i)
            sum += weights[t.offset + i] * std::cos(static_cast<double>(i));
          CAPTURE(k);
          CHECK(close(weights[t.offset], golden[k][0], 1e-10));
          CHECK(close(weights[t.end() - 1], golden[k][1], 1e-10));
          CHECK(close(sum, golden[k][2], 1e-10));
        }
      }
    }
}

TEST_CASE("power_sgd: of rank r or less, and of vectors, the mean is exact and nothing is owed") {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::size_t r : {1u, 3u}) {
      CAPTURE(ranks);
      const auto x = [&](int rank, int step) { return of_rank(rank, step, 20, 30, r); };
      for (const mixed& rank : mix(ranks, 20, 30, {.rank = 3}, 4, x)) {
        // A product with the last directions has a condition of its own.
        for (const double owed : rank.residual) CHECK(std::abs(owed) < 1e-10);
        for (int step = 0; step < 4; ++step) {
          const vector mean = mean_over(ranks, [&](int k) { return x(k, step); });
          double worst = 0;
          for (std::size_t i = 0; i < mean.size(); ++i)
            worst =
                std::max(worst, std::abs(mean[i] - rank.means[static_cast<std::size_t>(step)][i]));
          CHECK(worst < 1e-10);
        }
      }
    }
}

TEST_CASE("power_sgd: what was sent and is still owed is what was given, alike on all ranks") {
  constexpr int steps = 20;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    CAPTURE(ranks);
    const auto x = [](int rank, int step) { return of_rank(rank, step, 20, 30, 20); };
    const auto by_rank = mix(ranks, 20, 30, {.rank = 2}, steps, x);
    vector given(20 * 30), sent(20 * 30), owed(20 * 30);
    for (const mixed& rank : by_rank) {
      for (std::size_t i = 0; i < owed.size(); ++i) owed[i] += rank.residual[i] / ranks;
      for (std::size_t k = 0; k < steps; ++k) CHECK(same_bits(rank.means[k], by_rank[0].means[k]));
    }
    double worst = 0, largest = 0;
    for (int k = 0; k < steps; ++k)
      for (int r = 0; r < ranks; ++r) {
        const vector g = x(r, k);
        for (std::size_t i = 0; i < given.size(); ++i) given[i] += g[i] / ranks;
      }
    for (std::size_t i = 0; i < given.size(); ++i) {
      for (const vector& m : by_rank[0].means) sent[i] += m[i];
      worst = std::max(worst, std::abs(sent[i] + owed[i] - given[i]));
      largest = std::max(largest, std::abs(owed[i]));
    }
    CHECK(worst < 1e-11);
    if (ranks > 1) CHECK(largest > 1);  // it does lose something in each step
  }
}

TEST_CASE("power_sgd: a NaN or an infinity of one rank reaches every rank") {
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const mixed& rank : mix(3, 20, 30, {}, 1, [&](int r, int step) {
           vector x = of_rank(r, step, 20, 30, 9);
           if (r == 1) x[70] = wrong;
           return x;
         }))
      CHECK(std::any_of(rank.means[0].begin(), rank.means[0].begin() + 600,
                        [](double v) { return !std::isfinite(v); }));
}

TEST_CASE("power_sgd: without tensors it keeps the laws of the exact mean inside") {
  CHECK(reducer_laws([](auto comm) { return power_sgd{ring{comm}}; },
                     {.ranks = {1, 2, 3, 5, 8},
                      .messages = [](int, int p) { return to_size(2 * (p - 1)); },
                      .rounding = 1e-6}) == "");
}

TEST_CASE("power_sgd: two messages of (rows + cols) rank numbers, and what is not compressed") {
  const auto sent = on_ranks(4, [](threads comm) {
    traffic t;
    parameter_list list;
    list.add("matrix", {64, 64}).add("vector", {5});
    const bucket layout{.offset = 0, .size = list.plane_size(), .segments = list.segments()};
    const power_sgd reducer{tree{counting_communicator{comm, &t}}, {.rank = 2}};
    std::vector<float> x(layout.size, 1), e(layout.size), q(layout.size);
    std::vector<std::byte> scratch(reducer.scratch<float>(layout.size));
    reducer.mix(bucket_view<float, cpu, 2>{&layout,
                                           {x.data(), x.size()},
                                           {span_on<float, cpu>{e.data(), e.size()},
                                            span_on<float, cpu>{q.data(), q.size()}},
                                           {scratch.data(), scratch.size()}},
                step_info{}, cpu::stream{});
    return t;
  });
  std::size_t bytes = 0;
  for (const traffic& t : sent) bytes += t.bytes;
  CHECK(bytes == 2 * 3 * 4 * (128 * 2 + 5));  // a tree of 4 ranks sends n on 3 edges, both ways
}

TEST_CASE("power_sgd: a trainer refuses a model whose tensors stay as they are") {
  CHECK(contains(error_message([] { trained(2, 1, 0, {.rank = 50}); }),
                 "power_sgd: no tensor of the model becomes 2 times smaller at rank 50"));
}

TEST_CASE("power_sgd: describes itself, and refuses ranks, rates and models that make no sense") {
  threads::launch(2, [](threads comm) {
    CHECK(power_sgd{ring{comm}}.describe() ==
          "ring over 2 ranks: exact mean, in rank 4 where that is more than 2 times smaller (seed "
          "0), with error feedback");
    const auto message = [&](const cordee::detail::comm::power_sgd_options& options) {
      return error_message([&] { (void)power_sgd{ring{comm}, options}.scratch<float>(64); });
    };
    CHECK(contains(message({.rank = 0}), ".rank must be at least 1"));
    for (const double rate : {0.5, -1.0, std::nan("")})
      CHECK(contains(message({.min_compression_rate = rate}), ".min_compression_rate must be"));
    parameter_list vectors;
    vectors.add("bias", {4096}).add("column", {4096, 1});
    CHECK(contains(error_message([&] { power_sgd{ring{comm}}.check(vectors.segments()); }),
                   "no tensor of the model becomes 2 times smaller at rank 4"));
    power_sgd{ring{comm}}.check(parameter_list{}.add("matrix", {64, 64}).segments());
  });
}
