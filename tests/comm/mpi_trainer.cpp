// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Run by mpirun: a trainer over processes is the trainer over threads.
#include <algorithm>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/mpi.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/topology/fixed.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The weights after an epoch, and what the trainer says of the data.
template <class Reducer>
std::vector<float> trained(const Reducer& reducer) {
  static const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 96, .seed = 3};
  using layers = sequential<convolution<64, 3>, batch_norm<relu>, global_average_pool, linear<10>>;
  network<layers, fp32, cpu, direct, extent{1, 8, 8}, 10> net;
  loader feed{data, reducer.link, {.global_batch = 24, .seed = 1}};
  trainer run{net,
              lars{.momentum = 0.9},
              constant{.rate = 0.1},
              reducer,
              {.bucket_bytes = 2'000}};  // several messages a step
  CHECK(run.buckets().size() > 1);
  run.fit(feed, 1);
  std::vector<float> all(run.weights().begin(), run.weights().end());
  const score held = run.evaluate(data, {});
  all.push_back(static_cast<float>(held.mean_loss()));
  all.push_back(static_cast<float>(held.top1));
  return all;
}

// Those of a toy, each rank with data of its own, after a few steps.
template <class O, class Reducer>
std::vector<float> stepped(const O& rule, const Reducer& reducer) {
  quadratic<fp32> model;
  model.shift = 0.1 * reducer.link.rank();
  trainer run{model, rule, constant{.rate = 0.02}, reducer, {.bucket_bytes = 512}};
  const std::array one{one_each(reducer.link.size())};
  for (int k = 0; k < 10; ++k) run.step(one, k);
  return {run.weights().begin(), run.weights().end()};
}

// train(link) ends with the same numbers over processes as over threads.
template <class Train>
bool same_over_threads(const Train& train) {
  std::vector<float> here, there;
  int rank = 0, ranks = 0;
  mpi::launch([&](mpi link) {
    rank = link.rank();
    ranks = link.size();
    here = train(link);
  });
  std::mutex mutex;
  threads::launch(
      ranks,
      [&](threads link) {
        const auto mine = train(link);
        const std::scoped_lock lock(mutex);
        if (link.rank() == rank) there = mine;  // its running statistics are its own
      },
      patient);
  return !here.empty() && std::ranges::equal(here, there);
}

}  // namespace

TEST_CASE("a trainer over processes ends with the bits of a trainer over threads") {
  CHECK(same_over_threads([](auto link) { return trained(ring{link}); }));
}

TEST_CASE("so do a server's mean, a narrow wire and neighbours") {
  CHECK(same_over_threads([](auto link) { return stepped(sgd{}, server{link}); }));
  CHECK(same_over_threads([](auto link) { return stepped(sgd{}, narrow{ring{link}, int8{}}); }));
  CHECK(same_over_threads([](auto link) { return stepped(decentlam{}, gossip{link, cycle{}}); }));
}
