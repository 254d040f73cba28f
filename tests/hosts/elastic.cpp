// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What elastic.py runs on hosts: a process of an elastic run over ZeroMQ, and the run of one rank
// beside it.
//
//   hosts_elastic alone|launched|joins FILE STEPS PAUSE_MS
//
// FILE is the rendezvous. Sums are exact in any order (exact_sums.hpp): whatever ranks come and go,
// all print the weights of `alone`: "weights: 3.5 ...". A step takes PAUSE_MS at least.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include <cordee/checkpoint/memory_checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/comm/zeromq.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/checkpoint/exact_sums.hpp"

using namespace cordee;
using namespace support::exact;

namespace {

constexpr auto falling = [](double epoch) { return 0.05 / (1 + epoch); };

struct step_pause {
  std::chrono::milliseconds time;
  template <class Run>
  bool step_on_all_ranks(Run&, double) const {
    std::this_thread::sleep_for(time);
    return false;
  }
};

template <class Communicator>
std::string trained(const Communicator& comm, std::int64_t steps, step_pause each,
                    memory_checkpoint& kept) {
  exact_sums<fp64> model;
  trainer run{model, sgd{.momentum = 0.9}, falling, ring{comm}, {.check_stability = false}};
  kept.resume(run);
  auto feed = enumerated_feed(comm);
  run.fit(feed, feed.epoch(steps), each, kept);
  std::string text = "weights:";
  for (const double w : run.weights()) text += concat(" ", decimal::shortest(w));
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw usage_error("usage: hosts_elastic alone|launched|joins FILE STEPS PAUSE_MS");
  const std::string_view role = argv[1];
  const std::string file = argv[2];
  const std::int64_t steps = std::atoll(argv[3]);
  const step_pause each{std::chrono::milliseconds(std::atoi(argv[4]))};
  memory_checkpoint kept;
  std::string weights;
  if (role == "alone")
    weights = trained(self_comm{}, steps, {}, kept);
  else
    zeromq::launch([&](zeromq comm) { weights = trained(comm, steps, each, kept); },
                   {.deadline = std::chrono::seconds(3),
                    .listen = "*",
                    .elastic = elastic{.smallest = 2,
                                       .rendezvous = file,
                                       .joins = role == "joins",
                                       .settle = std::chrono::milliseconds(200)}});
  std::puts(weights.c_str());
} catch (const std::exception& e) {
  std::fprintf(stderr, "hosts_elastic: %s\n", e.what());
  return 1;
}
