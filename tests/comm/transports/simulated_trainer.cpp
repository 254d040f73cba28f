// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The trainer over simulated ranks: its courier is a fiber with a clock of its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/simulated/step.hpp>
#include <cordee/comm/topologies/topologies.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/chrome_trace.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/timed_model.hpp"

using namespace cordee;
using namespace support;

namespace {

struct simulated_step {
  double seconds = 0, exposed = 0;  // of the rank that ends last; averaged over ranks
};
/// The last of three steps of the trainer. All ranks begin a step at the same time.
template <class Make, class Stragglers = no_stragglers>
simulated_step trainer_step(int ranks, const step_profile& profile, const Make& make,
                            const simulated::options& network, const trainer_options& options,
                            const Stragglers& stragglers = {}) {
  simulated_step last;
  simulated::launch(
      ranks,
      [&](simulated comm) {
        timed_model model{comm, &profile, stragglers(comm.rank(), 0)};
        trainer run{model, sgd{}, constant{.learning_rate = 0.1}, make(comm), options};
        for (int step = 0; step < 3; ++step) {
          const double begin = 1024.0 * (step + 1);
          REQUIRE(comm.now() <= begin);
          comm.await({.seconds = begin});
          const auto out = take_one_step(run);
          if (step < 2) continue;
          last.seconds = std::max(last.seconds, comm.now() - begin);
          last.exposed += out.exposed_exchange.value_or(0) / ranks;
        }
      },
      network);
  return last;
}

const trainer_options one_bucket{.bucket_bytes = std::size_t{1} << 30};

const auto rings = [](auto comm) { return ring{comm}; };
const simulated::options ideal{.network = {.link = {.latency = 0.25, .bandwidth = 4096}}};

/// 2 (p - 1) messages of n / p numbers, one behind the other.
double ring_seconds(int ranks, std::size_t n) {
  return 2 * (ranks - 1) *
         (0.25 + 4 * static_cast<double>(n) / (static_cast<double>(ranks) * 4096));
}

}  // namespace

TEST_CASE("simulated trainer: a step is the recursion of its buckets, a ring's for each") {
  const step_profile profile = timed_profile();
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    double ready = profile.forward, arrived = 0;
    for (std::size_t k = timed_layers.size(); k-- > 0;) {
      ready += profile.backward[k];
      arrived = std::max(ready, arrived) + ring_seconds(ranks, timed_layers[k].size);
    }
    const double expected = std::max(ready, arrived) + profile.optimizer;
    const simulated_step s = trainer_step(ranks, profile, rings, ideal, bucket_per_layer());
    CHECK(std::abs(s.seconds - expected) <= 1e-9 * expected);
    CHECK(std::abs(s.exposed - (arrived - ready)) <= 1e-9 * expected);
    if (ranks > 2) CHECK(arrived - ready > ring_seconds(ranks, timed_layers[0].size));
  }
}

TEST_CASE("simulated trainer: one bucket, or none before backward's end, hides nothing") {
  const step_profile profile = timed_profile();
  for (const int ranks : {2, 3, 5, 8}) {
    CAPTURE(ranks);
    double separate = 0;
    for (const segment& s : timed_layers) separate += ring_seconds(ranks, s.size);
    const double joint = ring_seconds(ranks, timed_layers.back().end());
    trainer_options late = bucket_per_layer();
    late.overlap = false;
    for (const auto& [options, exchange] : {std::pair{one_bucket, joint}, {late, separate}}) {
      const simulated_step s = trainer_step(ranks, profile, rings, ideal, options);
      CHECK(std::abs(s.seconds - (profile.total() + exchange)) <= 1e-9 * s.seconds);
      CHECK(std::abs(s.exposed - exchange) <= 1e-9 * s.seconds);
    }
  }
}

TEST_CASE(
    "simulated trainer: where each layer takes longer than a bucket the last one is exposed") {
  for (const int ranks : {2, 3, 5, 8}) {
    CAPTURE(ranks);
    const double layer = ring_seconds(ranks, timed_layers[2].size);
    const step_profile profile = timed_profile({layer, layer, layer, layer, layer});
    const simulated_step s = trainer_step(ranks, profile, rings, ideal, bucket_per_layer());
    const double last = ring_seconds(ranks, timed_layers[0].size);
    CHECK(std::abs(s.seconds - (profile.total() + last)) <= 1e-9 * s.seconds);
    CHECK(std::abs(s.exposed - last) <= 1e-9 * s.seconds);
  }
}

TEST_CASE("simulated trainer: overlapped averages hide behind as many steps as they are given") {
  const step_profile profile = timed_profile({1, 0.25, 2, 0.5, 0.5});  // 8 s a step
  const auto seconds = [&](int ranks, const auto& optimizer) {  // of 16 steps, two of which average
    double last = 0;
    simulated::launch(
        ranks,
        [&](simulated comm) {
          timed_model model{comm, &profile};
          trainer run{model, optimizer, constant{.learning_rate = 0.1}, ring{comm}, one_bucket};
          comm.await({.seconds = 1024});
          for (int step = 0; step < 16; ++step) take_one_step(run);
          last = std::max(last, comm.now() - 1024);
        },
        ideal);
    return last;
  };
  const outer_momentum outer{local_steps{sgd{}, 7}};  // averages in steps 6 and 13
  for (const int ranks : {2, 3, 5}) {
    const double exchange = ring_seconds(ranks, timed_layers.back().end());
    const double alone = 16 * profile.total();
    CHECK(std::abs(seconds(ranks, outer) - alone - 2 * exchange) <= 1e-9 * alone);
    for (const int steps : {1, 2}) {
      CAPTURE(ranks);
      CAPTURE(steps);
      const double exposed = std::max(0.0, exchange - steps * profile.total());
      CHECK(std::abs(seconds(ranks, overlapped{outer, steps}) - alone - 2 * exposed) <=
            1e-9 * alone);
    }
  }
}

TEST_CASE("simulated trainer: couriers take one fiber of each rank, however many steps there are") {
  const step_profile profile = timed_profile();
  for (const int steps : {1, 100})
    CHECK(simulated::launch(
              4,
              [&](simulated comm) {
                timed_model model{comm, &profile};
                trainer run{model, sgd{}, constant{.learning_rate = 0.1}, ring{comm},
                            bucket_per_layer()};
                for (int step = 0; step < steps; ++step) take_one_step(run);
              },
              ideal)
              .fibers == 8);
}

TEST_CASE("simulated trainer: what backward sends shares the rank's port with the courier") {
  const step_profile profile = timed_profile();
  constexpr std::size_t sums_at = 3;
  const double sum = 0.25 + 8.0 / 4096;
  double end = 0;
  simulated::launch(
      2,
      [&](simulated comm) {
        timed_model model{.comm = comm, .seconds = &profile, .sums_at = sums_at};
        trainer run{model, sgd{}, constant{.learning_rate = 0.1}, ring{comm}, bucket_per_layer()};
        comm.await({.seconds = 1024});
        take_one_step(run);
        end = std::max(end, comm.now() - 1024);
      },
      ideal);
  double ready = profile.forward, arrived = 0;
  for (std::size_t k = timed_layers.size(); k-- > 0;) {
    ready += profile.backward[k];
    if (k == sums_at) {  // posted during the first of the last layer's two messages, so the second
      ready = arrived - ring_seconds(2, timed_layers[4].size) / 2 + sum;  // waits for it
      arrived += sum;
    }
    arrived = std::max(ready, arrived) + ring_seconds(2, timed_layers[k].size);
  }
  CHECK(std::abs(end - (arrived + profile.optimizer)) <= 1e-9 * end);
}

TEST_CASE("simulated trainer: the step that a plan predicts") {
  const step_profile profile = timed_profile();
  const link_parameters link{.latency = 0.25, .bandwidth = 4096};
  const auto agrees = [&](const auto& make) {
    for (const simulated::options& network :
         {ideal, simulated::options{.contended = fat_tree{link, link, link, 2, 2}}})
      for (const int ranks : {2, 4, 6, 8})
        for (const trainer_options& options : {bucket_per_layer(), one_bucket}) {
          CAPTURE(ranks);
          CAPTURE(options.bucket_bytes);
          const constant_stragglers slower{.from_rank = 3, .factor = 1.25};
          const simulated_step run = trainer_step(ranks, profile, make, network, options, slower);
          const simulated_steps plan = simulate_steps(
              ranks, profile, make, network, {.bucket_bytes = options.bucket_bytes}, slower);
          CHECK(std::abs(run.seconds - plan.seconds) <= 1e-9 * plan.seconds);
          CHECK(std::abs(run.exposed - plan.exposed) <= 1e-9 * plan.seconds);
        }
  };
  agrees(rings);
  agrees([](auto comm) { return halving_doubling{comm}; });
  agrees([](auto comm) { return butterfly{comm}; });
}

TEST_CASE("simulated trainer: the weights are those of ranks as threads, to the bit") {
  const auto same = [](const auto& optimizer, const auto& make) {
    const auto train = [&](const auto& comm) {
      quadratic<fp32> model{.shift = 0.3 * comm.rank()};
      trainer run{
          model, optimizer, constant{.learning_rate = 0.1}, make(comm), {.bucket_bytes = 256}};
      CHECK(run.buckets().size() == 4);
      for (int step = 0; step < 5; ++step) take_one_step(run);
      const auto w = run.weights();
      return std::vector<float>(w.begin(), w.end());
    };
    for (const int ranks : {1, 2, 3, 5, 8}) {
      CAPTURE(ranks);
      const auto expected = on_ranks(ranks, [&](threads comm) { return train(comm); });
      simulated::launch(
          ranks,
          [&](simulated comm) {
            const std::vector<float> w = train(comm);
            CHECK(w == expected[static_cast<std::size_t>(comm.rank())]);
            CHECK(w[0] != static_cast<float>(t4_start[0][0]));
          },
          ideal);
    }
  };
  same(sgd{}, rings);
  same(sgd{}, [](auto comm) { return halving_doubling{comm}; });
  same(local_steps{sgd{}, 2}, [](auto comm) { return gossip{comm, topologies::ring{}}; });
}

namespace {

struct slow_model : quadratic<fp32> {
  simulated comm;
  template <class Ready>
  void backward(const packed_parameters& w, span_on<float, cpu> g, write_mode mode, Ready&& ready,
                cpu::stream s) {
    comm.compute(1.5);
    quadratic<fp32>::backward(w, g, mode, ready, s);
  }
};

}  // namespace

TEST_CASE("simulated trainer: fit reports seconds of virtual time") {
  simulated::launch(2, [](simulated comm) {
    slow_model model{{}, comm};
    trainer run{model, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
    toy_loader feed{.rank_count = 2};
    CHECK(std::abs(run.fit(feed, 2).seconds - 20 * 1.5) <= 20 * 1e-15 * 30);  // messages take none
  });
}

TEST_CASE("simulated trainer: a timeline has each rank's events, at virtual times") {
  const folder here;
  const std::string file = here.file("trace.json");
  simulated::launch(
      3,
      [&](simulated comm) {
        slow_model model{{}, comm};
        trainer run{model, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
        toy_loader feed{.rank_count = 3};
        comm.compute(comm.rank());
        run.fit(feed, 1, chrome_trace{.path = file, .steps = 4});
      },
      ideal);
  std::array<int, 3> backwards{}, exchanges{};
  std::array<double, 3> ends{};
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    int pid = 0, tid = 0;
    double begin = 0, duration = 0;  // microseconds
    char name[16] = "";
    if (std::sscanf(
            line.c_str(),
            "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %lf, \"dur\": %lf, \"name\": "
            "\"%15[a-z]",
            &pid, &tid, &begin, &duration, name) != 5)
      continue;
    const auto rank = static_cast<std::size_t>(pid);
    if (name == std::string("backward")) {
      CHECK(duration == 1.5e6);
      ends[rank] = begin + duration;
      ++backwards[rank];
    }
    if (name == std::string("exchange")) {
      CHECK(tid == 1);
      CHECK(duration >= 4 * 0.25e6);
      CHECK(begin >= 1.5e6 * ++exchanges[rank]);
    }
  }
  CHECK(backwards == std::array{4, 4, 4});
  CHECK(exchanges == std::array{4, 4, 4});
  CHECK(ends[0] >= 2e6 + 4 * 2.5e6 - 1e6);  // behind rank 2, four steps with their exchanges
}
