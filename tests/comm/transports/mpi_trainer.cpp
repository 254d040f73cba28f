// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Run by mpirun: training over processes gives the bits of training over threads.
#include <mutex>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/comm/transports/mpi.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/callbacks/recalibration.hpp>
#include <cordee/train/kfac/kfac.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/custom_quadratic.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

using layers = sequential<convolution<64, 3>, batch_norm<relu>, global_average_pool, linear<10>>;
using small_network = network<layers, fp32, cpu, direct, extent{1, 8, 8}, 10>;

// The weights after an epoch, and the metrics of an evaluation.
template <class Net = small_network, class Reducer, class O = lars>
std::vector<float> trained(const Reducer& reducer, int batch_norm_over = 1,
                           const O& optimizer = {.momentum = 0.9}) {
  static const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 96, .seed = 3};
  Net net;
  loader feed{data, reducer.comm, {.global_batch = 24, .seed = 1}};
  trainer run{
      net,
      optimizer,
      constant{.learning_rate = 0.1},
      reducer,
      {.bucket_bytes = 2'000, .batch_norm_over = batch_norm_over}};  // several messages a step
  CHECK(run.buckets().size() > 1);
  run.fit(feed, 1);
  std::vector<float> result(run.weights().begin(), run.weights().end());
  const metrics m = run.evaluate(data, {});
  result.push_back(static_cast<float>(m.mean_loss()));
  result.push_back(static_cast<float>(m.top1));
  return result;
}

// The weights of a quadratic model after a few steps, with different data on each rank.
template <class O, class Reducer>
std::vector<float> stepped(const O& optimizer, const Reducer& reducer) {
  quadratic<fp32> model;
  model.shift = 0.1 * reducer.comm.rank();
  trainer run{model, optimizer, constant{.learning_rate = 0.02}, reducer, {.bucket_bytes = 512}};
  const std::array batches{one_each(reducer.comm.size())};
  for (int k = 0; k < 10; ++k) run.step(batches, k);
  return {run.weights().begin(), run.weights().end()};
}

// The same of a function of the user's over processes, and of the model of types over threads.
template <class O, class Reducer>
std::vector<float> own_stepped(const O& optimizer, const Reducer& reducer) {
  if constexpr (std::is_same_v<typename Reducer::communicator_type, mpi>) {
    auto model = quadratic_model_of<fp32>();
    trainer run{model, optimizer, constant{.learning_rate = 0.02}, reducer, {.bucket_bytes = 512}};
    for (int k = 0; k < 10; ++k) run.step(shift(0.1 * reducer.comm.rank()), 1, k);
    return {run.weights().begin(), run.weights().end()};
  } else {
    return stepped(optimizer, reducer);
  }
}

// Whether train(comm) returns the same bits over processes as over threads.
template <class Train>
bool same_over_threads(const Train& train) {
  std::vector<float> over_processes, over_threads;
  int rank = 0, ranks = 0;
  mpi::launch([&](mpi comm) {
    rank = comm.rank();
    ranks = comm.size();
    over_processes = train(comm);
  });
  std::mutex mutex;
  threads::launch(
      ranks,
      [&](threads comm) {
        const auto result = train(comm);
        const std::scoped_lock lock(mutex);
        if (comm.rank() == rank) over_threads = result;  // running statistics differ between ranks
      },
      long_deadline);
  return !over_processes.empty() && same_bits(over_processes, over_threads);
}

}  // namespace

TEST_CASE("mpi: an epoch over a ring gives the bits of threads") {
  CHECK(same_over_threads([](auto comm) { return trained(ring{comm}); }));
}

TEST_CASE(
    "mpi: batch norm over groups of ranks, over a ring and over gossip, gives the bits of "
    "threads") {
  for (const int over : {0, 2}) {
    CHECK(same_over_threads([over](auto comm) { return trained(ring{comm}, over); }));
    CHECK(same_over_threads([over](auto comm) {
      return trained(gossip{comm, topologies::ring{}}, over, decentlam{});
    }));
  }
}

TEST_CASE(
    "mpi: kfac, whose factors and updates travel between all ranks, gives the bits of threads") {
  CHECK(same_over_threads([](auto comm) {
    return trained(ring{comm}, 0, kfac{velocity_sgd{.momentum = 0.9}, 0.03, 16, 2});
  }));
}

TEST_CASE(
    "mpi: adversarial images, whose batch norms are tensors of their own and may be over groups of "
    "ranks, give the bits of threads") {
  for (const int over : {1, 0, 2})
    CHECK(same_over_threads(
        [over](auto comm) { return trained<adversarial<small_network>>(ring{comm}, over); }));
}

TEST_CASE("mpi: statistics of the last batch, pooled and recalibrated, give the bits of threads") {
  CHECK(same_over_threads([](auto comm) {
    static const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 96, .seed = 3};
    small_network net;
    net.batch_norm_moving_average = false;
    loader feed{data, comm, {.global_batch = 24, .seed = 1}};
    loader sample{data, comm, {.global_batch = 32, .seed = 2}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
    std::vector<float> result;
    const auto add = [&] {
      result.insert(result.end(), run.statistics().begin(), run.statistics().end());
      result.push_back(static_cast<float>(run.evaluate(data, {}).mean_loss()));
    };
    run.fit(feed, 1);
    add();
    pool_statistics(run);
    add();
    recalibrate(run, sample, 2);
    add();
    return result;
  }));
}

TEST_CASE("mpi: a server, a compressed ring and gossip give the bits of threads") {
  CHECK(same_over_threads([](auto comm) { return stepped(sgd{}, server{comm}); }));
  CHECK(same_over_threads([](auto comm) {
    return stepped(sgd{}, compressed{ring{comm}, int8{}});
  }));
  CHECK(same_over_threads([](auto comm) {
    return stepped(decentlam{}, gossip{comm, topologies::ring{}});
  }));
}

TEST_CASE("mpi: a model of the user's own gives the bits of a model of types over threads") {
  CHECK(same_over_threads([](auto comm) { return own_stepped(sgd{}, server{comm}); }));
  CHECK(same_over_threads([](auto comm) {
    return own_stepped(sgd{}, compressed{ring{comm}, int8{}});
  }));
  CHECK(same_over_threads([](auto comm) {
    return own_stepped(decentlam{}, gossip{comm, topologies::ring{}});
  }));
}
