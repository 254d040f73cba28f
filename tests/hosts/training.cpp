// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What training.py runs on hosts, a rank a process, and as threads of one process:
//
//   hosts_zeromq|hosts_mpi zeromq|mpi|threads:RANKS REDUCER [FOLDER]
//
// A run whose sums are exact in any order. Each rank prints its weights: "rank 1: 3.5 ...". With
// FOLDER it saves a checkpoint after each epoch, and continues from one.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/cordee.hpp>
#if defined(CORDEE_TEST_MPI)
#include <cordee/comm/mpi.hpp>
#else
#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/zeromq.hpp>
#endif

using namespace cordee;

namespace {

struct samples {
  std::vector<std::uint32_t> numbers;
};

// Gradients are small whole numbers, the learning rate is a power of two.
metrics compute(const samples& own, model_pass<float, cpu>& pass) {
  const auto weight = static_cast<float>(pass.loss_weight());
  for (const std::uint32_t n : own.numbers)
    for (const auto* name : {"a", "b"}) {
      const auto g = pass.gradient(name);
      for (std::size_t i = 0; i < g.size; ++i) g[i] += weight * static_cast<float>((n + i) % 5);
    }
  pass.ready("b");
  pass.ready("a");
  return {.count = static_cast<std::int64_t>(own.numbers.size())};
}

template <class Communicator, class Reducer>
void train(const Communicator& comm, const Reducer& reducer, const std::string& folder,
           const auto& optimizer) {
  parameter_list list;
  list.add("a", {7}).add("b", {3});
  const auto zero = [](const segment&, span_on<float, cpu> x, std::uint64_t) {
    for (std::size_t i = 0; i < x.size; ++i) x[i] = 0;
  };
  custom_model<samples> model{list, compute, {}, zero};
  trainer run{model, optimizer, constant{0.25}, reducer};
  const int ranks = comm.size();
  batch_source feed{std::size_t{16} * static_cast<std::size_t>(ranks),
                    comm,
                    {.global_batch = 4 * ranks},
                    [](const sample_indices& s) {
                      return samples{{s.samples.begin(), s.samples.end()}};
                    }};
#if !defined(CORDEE_TEST_MPI)
  if (!folder.empty()) {
    run.resume(folder);
    run.fit(feed, 2, checkpoint{.folder = folder, .every = {.epochs = 1}});
  }
#endif
  if (folder.empty()) run.fit(feed, 2);
  std::string text = concat("rank ", comm.rank(), ":");
  for (const float w : run.weights()) text += concat(" ", decimal::shortest(w));
  std::puts(text.c_str());
  std::fflush(stdout);
}

template <class Communicator>
void train_by(const Communicator& comm, std::string_view reducer, const std::string& folder) {
  const sgd plain{.momentum = 0};
  if (reducer == "ring") return train(comm, ring{comm}, folder, plain);
  if (reducer == "torus_ring") return train(comm, torus_ring{comm}, folder, plain);
  if (reducer == "hierarchical")
    return train(comm, hierarchical{comm, nodes::by_host(comm)}, folder, plain);
  if (reducer == "gossip")
    return train(comm, gossip{comm, topologies::ring{}}, folder, local_steps{plain, 1});
  throw usage_error("no such reducer");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string transport = argc > 2 ? argv[1] : "", folder = argc > 3 ? argv[3] : "";
  const auto run = [&](auto comm) { train_by(comm, argv[2], folder); };
  if (transport.starts_with("threads:")) threads::launch(std::atoi(transport.c_str() + 8), run);
#if defined(CORDEE_TEST_MPI)
  else if (transport == "mpi")
    mpi::launch(run);
#else
  else if (transport == "zeromq")
    zeromq::launch(run, {.deadline = std::chrono::seconds(20), .listen = "*"});
#endif
  else
    throw usage_error("no such transport");
} catch (const std::exception& e) {
  std::fprintf(stderr, "hosts: %s\n", e.what());
  return 1;
}
