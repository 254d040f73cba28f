// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the demo by a parameter server on rank 0: synchronous, asynchronous, and (--sweep)
// over bounds of the staleness, beside the run of one process on the same global batch.
//
// Each push is an update of its own: p ranks that push one by one move the weights p times as far
// as their mean would. So the learning rate of an asynchronous run is that of the synchronous one
// times (pushes of an update) / p.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data;
  int ranks, batch, delay;
  double epochs, warmup, learning_rate, momentum;
  std::uint64_t seed;
  bool sweep;
};

struct result {
  double accuracy = 0;
  std::vector<std::int64_t> staleness;  // [k]: pushes that were k versions old
};

// The demo's network, whose steps take longer on this rank.
struct network : resnet<20, fp32, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}> {
  std::chrono::milliseconds delay{0};

  void forward(const packed_parameters& in, span_on<float, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    if (p == phase::train) std::this_thread::sleep_for(delay);
    resnet::forward(in, plane, b, p, s);
  }
};

// Without callbacks: these synchronize the ranks at every step, so that no rank would be ahead.
template <class Optimizer, class Reducer, class Training, class HeldOut>
result train(const plan& p, const Optimizer& optimizer, double learning_rate,
             const Reducer& reducer, const Training& training, const HeldOut& held_out) {
  network net;
  const auto& comm = reducer.comm;
  if (comm.size() > 1 && comm.rank() == comm.size() - 1)
    net.delay = std::chrono::milliseconds(p.delay);
  const auto norm = normalize::measured(training);
  loader feed{training,
              comm,
              {.global_batch = p.batch, .seed = p.seed},
              pad_crop_flip{.pad = 2, .flip = true},
              norm};
  trainer run{net,
              optimizer,
              warmup{p.warmup, polynomial{.peak = learning_rate, .epochs = p.epochs, .power = 2}},
              reducer,
              {.seed = p.seed}};
  run.fit(feed, p.epochs);
  const metrics validated = run.evaluate(held_out, norm);
  result r{100 * validated.accuracy(), {}};
  if constexpr (requires { reducer.staleness(); }) r.staleness = reducer.staleness();
  return r;
}

void print(const std::string& name, const result& r) {
  double pushes = 0, sum = 0;
  for (std::size_t k = 0; k < r.staleness.size(); ++k) {
    pushes += static_cast<double>(r.staleness[k]);
    sum += static_cast<double>(k) * static_cast<double>(r.staleness[k]);
  }
  std::printf("%-44s %6s %%", name.c_str(), decimal::fixed(r.accuracy, 2).c_str());
  if (pushes > 0)
    std::printf("   staleness %s, at most %zu", decimal::fixed(sum / pushes, 2).c_str(),
                r.staleness.size() - 1);
  std::printf("\n");
  std::fflush(stdout);
}

void compare(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const sgd optimizer{.momentum = p.momentum, .weight_decay = 5e-4};
    const auto launch = [&](int ranks, const auto& f) {
      result first;
      threads::launch(ranks, [&](threads comm) {
        const result of_rank = f(comm);
        if (comm.rank() == 0) first = of_rank;
      });
      return first;
    };
    const auto synchronous = [&](threads comm) {
      return train(p, optimizer, p.learning_rate, server{comm}, training, held_out);
    };
    const auto run_asynchronous = [&](const std::string& name, const asynchronous& options) {
      print(name, launch(p.ranks, [&](threads comm) {
              const server reducer{comm, options};
              const double share = 1.0 * std::max(1, p.ranks / options.softsync) / p.ranks;
              return train(p, local_steps{optimizer, 1}, share * p.learning_rate, reducer, training,
                           held_out);
            }));
    };
    std::printf(
        "%d ranks, batch %d, %s epochs%s: validation accuracy\n", p.ranks, p.batch,
        decimal::general(p.epochs, 6).c_str(),
        p.delay > 0 ? concat(", the last rank delayed by ", p.delay, " ms a step").c_str() : "");
    print("one process", launch(1, synchronous));
    print("synchronous", launch(p.ranks, synchronous));
    run_asynchronous("asynchronous", {});
    run_asynchronous("asynchronous, divided by staleness", {.staleness_aware = true});
    if (!p.sweep) return;
    for (const int ahead : {0, 1, 4})
      run_asynchronous(concat("asynchronous, at most ", ahead, " steps ahead"),
                       {.staleness_bound = ahead});
    for (int n = 1; n < p.ranks; n *= 2)
      run_asynchronous(concat("asynchronous, ", n, "-softsync"), {.softsync = n});
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "parameter_server: ResNet-20 on Fashion-MNIST by a server on rank 0, "
                        "synchronous and asynchronous");
    plan p;
    p.data =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.positive("ranks", 4, "ranks, one thread (or more, where cores are left) each");
    p.batch = o.positive("batch", 256, "samples of one step, over all ranks");
    p.epochs = o.number("epochs", 6, "epochs, passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 0.1, "peak learning rate of the synchronous runs");
    p.momentum = o.number("momentum", 0.9, "asynchrony adds momentum of its own: try less");
    p.delay = o.whole("delay", 0, "milliseconds added to each step of the last rank");
    p.seed = o.seed();
    p.sweep = o.flag("sweep", "also over bounds of the staleness and n-softsync");
    o.done();
    compare(p);
  });
}
