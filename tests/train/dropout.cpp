// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Dropout in a trainer: the same numbers for any number of ranks and micro-batches, and after a
// restore.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/dropout.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent shape{1, 6, 6};
using net_type = network<sequential<convolution<4, 3>, global_average_pool, dropout, linear<3>>,
                         fp64, cpu, reference, shape, 3>;
const synthetic images{.extent = shape, .classes = 3, .samples = 60, .seed = 3};

template <class Communicator>
std::vector<double> train(const Communicator& comm, int accumulate, double rate) {
  net_type net{cpu(1)};
  net.dropout_rate = rate;
  loader feed{images, comm, {.global_batch = 12, .accumulate = accumulate, .seed = 5}};
  trainer run{net, sgd{.momentum = 0.9}, constant{.learning_rate = 0.5}, ring{comm}, {.seed = 2}};
  run.fit(feed, 2);
  return copy(run.weights());
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("dropout: ranks and micro-batches train as one rank does") {
  const auto at = [](int ranks, int accumulate, double rate) {
    std::vector<double> weights;
    threads::launch(
        ranks,
        [&](threads comm) {
          const auto own = train(comm, accumulate, rate);
          if (comm.rank() == 0) weights = own;
        },
        long_deadline);
    return weights;
  };
  const std::vector<double> one = at(1, 1, 0.5);
  CHECK(distance(one, at(1, 1, 0)) > 1e-3);
  // Ten updates of sums in another order, of numbers below 10: far below 1e-11.
  for (const int ranks : {2, 3}) CHECK(distance(one, at(ranks, 1, 0.5)) < 1e-11);
  CHECK(distance(one, at(2, 3, 0.5)) < 1e-11);
}

TEST_CASE("dropout: a restored run goes on with the same bits") {
  const auto make = [](net_type& net) {
    net.dropout_rate = 0.5;
    return trainer{net, sgd{}, constant{.learning_rate = 0.5}, solo{}, {.seed = 2}};
  };
  net_type a{cpu(1)}, b{cpu(1)};
  auto first = make(a);
  auto second = make(b);
  loader feed{images, self_comm{}, {.global_batch = 12, .seed = 5}};
  loader again{images, self_comm{}, {.global_batch = 12, .seed = 5}};
  first.fit(feed, 1);
  const detail::train::run_state state = first.state();
  const auto weights = copy(first.weights());
  const auto momentum = copy(first.slot(0));
  std::copy(weights.begin(), weights.end(), second.weights().begin());
  std::copy(momentum.begin(), momentum.end(), second.slot(0).begin());
  first.fit(feed, 2);
  second.restore(state);
  second.fit(again, 2);
  CHECK(copy(first.weights()) == copy(second.weights()));
}

TEST_CASE("dropout: each update draws anew") {
  net_type net{cpu(1)};
  net.dropout_rate = 0.5;
  loader feed{images, self_comm{}, {.global_batch = 12, .seed = 5}};
  trainer run{net, sgd{}, constant{.learning_rate = 0}, solo{}, {.seed = 2}};
  const auto batches = feed.next();
  const double first = run.step(batches, 0).train.loss, second = run.step(batches, 0).train.loss;
  CHECK(first != second);  // of the same weights and samples
  net.dropout_rate = 0;
  const double whole = run.step(batches, 0).train.loss;
  CHECK(whole == run.step(batches, 0).train.loss);
}
