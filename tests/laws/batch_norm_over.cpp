// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm over ranks through the trainer: its golden vector, and the law that p ranks whose
// statistics are over G of them are one rank with ghost batches of G ranks' samples.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The golden vector of docs/mathematics_network.md: two ranks of three samples.
constexpr std::array<std::array<std::uint8_t, 3>, 2> golden_x{{{1, 2, 4}, {0, 5, 6}}};
constexpr std::array golden_dy{0.1, -0.2, 0.3, 0.5, -0.1, 0.2};
constexpr std::array golden_y{-1.18872866174, -0.494364330868, 0.894364330868,
                              -1.8830929926,  1.58872866174,   2.2830929926};

// A loss whose gradient by a golden y is the golden dy. Samples weigh 1/3.
struct golden_loss {
  struct sample_loss {
    double value = 0;
    [[nodiscard]] double gradient(double z, double) const {
      std::size_t nearest = 0;
      for (std::size_t n = 1; n < golden_y.size(); ++n)
        if (std::abs(z - golden_y[n]) < std::abs(z - golden_y[nearest])) nearest = n;
      return 3 * golden_dy[nearest];
    }
  };
  template <class Sample>
  sample_loss operator()(const Sample&) const {
    return {};
  }
  bool operator==(const golden_loss&) const = default;
};

using one_batch_norm = network<batch_norm<>, fp64, cpu, reference, extent{1, 1, 1}, 1, golden_loss>;

constexpr extent image{2, 8, 8};
template <int GhostBatch>
using net = resnet<8, fp64, cpu,
                   resnet_options{.image = image, .ghost_batch = GhostBatch, .zero_gamma = false}>;

struct path {
  std::vector<double> losses, weights;  // weights without running statistics
};

// Six updates of 24 samples.
template <int GhostBatch, class Make, class O = sgd>
path train(int ranks, int over, const Make& make, const O& optimizer) {
  static const synthetic data{.extent = image, .classes = 10, .samples = 96, .seed = 3};
  struct recorder {
    std::vector<double>* losses;
    void step(const step_record& r) { losses->push_back(r.train.mean_loss()); }
  };
  path result;
  on_ranks(ranks, [&](threads comm) {
    net<GhostBatch> model;
    loader feed{data, comm, {.global_batch = 24, .seed = 5}};
    trainer run{model,
                optimizer,
                constant{.learning_rate = 0.05},
                make(comm),
                {.bucket_bytes = 1 << 14, .batch_norm_over = over}};
    run.fit(feed, 1.5, recorder{&result.losses});
    if (comm.rank() == 0)
      result.weights.assign(
          run.weights().begin(),
          run.weights().begin() +
              static_cast<std::ptrdiff_t>(run.weights().size - run.statistics().size));
    return 0;
  });
  return result;
}

constexpr sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-3};
constexpr auto over_ring = [](threads comm) { return ring{comm}; };

// Rounding, as in one_curve.cpp: 1e-9 of a loss and of a weight.
void check_equal(const path& x, const path& y) {
  REQUIRE(x.losses.size() == 6);
  REQUIRE(y.losses.size() == 6);
  REQUIRE(x.weights.size() == y.weights.size());
  for (std::size_t k = 0; k < 6; ++k) CHECK(close(x.losses[k], y.losses[k], 1e-9));
  double largest = 0;
  for (std::size_t k = 0; k < x.weights.size(); ++k)
    largest = std::max(largest, std::abs(x.weights[k] - y.weights[k]));
  CHECK(largest < 1e-9);
}

/// Each rank's running statistics after three updates of two samples.
template <class P>
auto statistics_of_two_samples(int ranks, int over) {
  static const synthetic data{.extent = image, .classes = 10, .samples = 96, .seed = 3};
  return on_ranks(ranks, [&](threads comm) {
    resnet<8, P, cpu, resnet_options{.image = image, .zero_gamma = false}> model;
    loader feed{data, comm, {.global_batch = 2, .seed = 5}};
    trainer run{model,
                momentum_sgd,
                constant{.learning_rate = 0.05},
                ring{comm},
                {.batch_norm_over = over}};
    for (int k = 0; k < 3; ++k) run.step(feed.next(), 0);
    return std::vector<double>(run.statistics().begin(), run.statistics().end());
  });
}

}  // namespace

TEST_CASE("batch_norm_over: the golden vector of two ranks, in each group of two, to 1e-10") {
  for (const int ranks : {2, 4})
    on_ranks(ranks, [&](threads comm) {
      one_batch_norm model;
      trainer run{model,
                  sgd{.momentum = 0},
                  constant{.learning_rate = 1},
                  ring{comm},
                  {.batch_norm_over = 2}};
      run.weights("bn1.weight")[0] = 1.5;
      run.weights("bn1.bias")[0] = 0.2;
      run.adopt_weights();
      const auto half = static_cast<std::size_t>(comm.rank() % 2);
      constexpr std::array<std::int32_t, 3> labels{};
      const batch<cpu> b{.pixels = {golden_x[half].data(), 3},
                         .labels = {labels.data(), 3},
                         .count = 3,
                         .global_samples = 3 * ranks,
                         .ranks = ranks,
                         .normalization = {.mean = {}, .scale = {255}}};
      run.step(std::span(&b, 1), 0);
      for (std::size_t n = 0; n < 3; ++n)
        CHECK(close(model.logits()[n], golden_y[3 * half + n], 1e-10));
      // The gradient is the mean over ranks of their sums: half of the group's.
      CHECK(close(run.weights("bn1.weight")[0], 1.5 + 0.37032764313 / 2, 1e-10));
      CHECK(close(run.weights("bn1.bias")[0], 0.2 - 0.8 / 2, 1e-10));
      CHECK(close(run.weights("bn1.running_mean")[0], 0.1 * 3, 1e-10));
      CHECK(close(run.weights("bn1.running_var")[0], 0.9 + 0.1 * 5.6, 1e-10));
      return 0;
    });
}

TEST_CASE("batch_norm_over: ranks with statistics over all are one rank with the whole batch") {
  const path alone = train<0>(1, 1, over_ring, momentum_sgd);
  CHECK(alone.losses[5] < 0.9 * alone.losses[0]);  // it learns
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    check_equal(train<0>(ranks, 0, over_ring, momentum_sgd), alone);
    check_equal(train<0>(
                    ranks, ranks, [](threads comm) { return tree{comm}; }, momentum_sgd),
                alone);
  }
}

TEST_CASE("batch_norm_over: groups of ranks are ghost batches of one rank, the last one smaller") {
  check_equal(train<0>(4, 2, over_ring, momentum_sgd), train<12>(1, 1, over_ring, momentum_sgd));
  check_equal(train<0>(4, 3, over_ring, momentum_sgd), train<18>(1, 1, over_ring, momentum_sgd));
  check_equal(train<0>(3, 2, over_ring, momentum_sgd), train<16>(1, 1, over_ring, momentum_sgd));
}

TEST_CASE("batch_norm_over: ranks without samples have the running statistics of the others") {
  const auto alone = statistics_of_two_samples<fp64>(1, 1)[0];
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto exact = statistics_of_two_samples<fp64>(ranks, 0),
               rounded = statistics_of_two_samples<fp32>(ranks, 0);
    for (std::size_t r = 0; r < exact.size(); ++r) {
      CAPTURE(r);
      CHECK(exact[r] == exact[0]);
      CHECK(rounded[r] == rounded[0]);
    }
    REQUIRE(exact[0].size() == alone.size());
    for (std::size_t k = 0; k < alone.size(); ++k) CHECK(close(exact[0][k], alone[k], 1e-9));
  }
}

TEST_CASE("batch_norm_over: a group of ranks that has no sample keeps its running statistics") {
  const auto of = statistics_of_two_samples<fp32>(5, 2);  // ranks 2 and 4 have one each
  for (const std::size_t r : {0U, 1U})
    for (const double one : of[r]) CHECK((one == 0 || one == 1));
  CHECK(of[1] == of[0]);
  CHECK(of[2] == of[3]);
  CHECK_FALSE(of[2] == of[0]);
  CHECK_FALSE(of[4] == of[2]);
}

TEST_CASE(
    "batch_norm_over: a batch of NaN leaves statistics finite, on ranks without samples too") {
  // Each rank tests its own gradient, which is zero without samples.
  const auto statistics_of = [](const auto& optimizer, const auto& make) {
    static const synthetic data{.extent = image, .classes = 10, .samples = 96, .seed = 3};
    return on_ranks(5, [&](threads comm) {
      net<0> model;
      loader feed{data, comm, {.global_batch = 2, .seed = 5}};
      trainer run{
          model, optimizer, constant{.learning_rate = 0.05}, make(comm), {.batch_norm_over = 0}};
      for (int k = 0; k < 3; ++k) {
        const auto micro = feed.next();
        std::vector<batch<cpu>> batches(micro.begin(), micro.end());
        if (k == 1)
          for (batch<cpu>& b : batches) b.normalization.mean[0] = std::nanf("");
        run.step(batches, 0);
      }
      return std::vector<double>(run.statistics().begin(), run.statistics().end());
    });
  };
  const auto over_all = [](threads comm) { return gossip{comm, topologies::complete{}}; };
  for (const auto& all : {statistics_of(local_steps{momentum_sgd, 2}, over_ring),
                          statistics_of(decentlam{.momentum = 0.9}, over_all)})
    for (const auto& of_rank : all)
      CHECK(std::ranges::all_of(of_rank, [](double x) { return std::isfinite(x); }));
}

TEST_CASE("batch_norm_over: gossip on the complete graph is one rank with the whole batch") {
  // Every rank's weights are the mean of all after each exchange.
  const path alone = train<0>(1, 1, over_ring, momentum_sgd);
  for (const int ranks : {3, 4})
    check_equal(train<0>(
                    ranks, 0,
                    [](threads comm) {
                      return gossip{comm, topologies::complete{}};
                    },
                    decentlam{.momentum = 0.9, .weight_decay = 1e-3}),
                alone);
}

TEST_CASE("batch_norm_over: a number of ranks that the run does not have is refused") {
  for (const int over : {-1, 3})
    CHECK(contains(error_message([&] {
                     on_ranks(2, [&](threads comm) {
                       one_batch_norm model;
                       trainer run{model, sgd{}, constant{}, ring{comm}, {.batch_norm_over = over}};
                       return 0;
                     });
                   }),
                   "batch_norm_over is a number of ranks of this run"));
}

TEST_CASE("batch_norm_over: ghost batches are refused before the first step, however large") {
  const auto construct = [](int ranks, int over) {
    on_ranks(ranks, [&](threads comm) {
      net<32> model;
      trainer run{model, sgd{}, constant{}, ring{comm}, {.batch_norm_over = over}};
      return 0;
    });
  };
  for (const int over : {0, 2})
    CHECK(contains(error_message([&] { construct(2, over); }),
                   "trainer: batch_norm_over takes statistics over whole batches"));
  construct(2, 1);
  construct(1, 0);
}
