// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the demo by a parameter server on rank 0: synchronous, asynchronous, and (--sweep)
// over how stale a push may be, each beside the run of one process on the same global batch.
//
// A push counts for itself: p ranks that push alone move p times as far as their mean. So the rate
// of an asynchronous run is the synchronous one times (pushes of an update) / p.
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
  int ranks, batch, late;
  double epochs, warmup, rate, momentum;
  std::uint64_t seed;
  bool sweep;
};

struct result {
  double accuracy = 0;
  std::vector<std::int64_t> staleness;  // pushes that were k versions old, by k
};

// The demo's network; each of its steps takes so much longer on this rank.
struct network : resnet<20, fp32, cpu, shape{.image = {1, 28, 28}, .zero_gamma = false}> {
  std::chrono::milliseconds late{0};

  void forward(const image& in, span_on<float, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    if (p == phase::train) std::this_thread::sleep_for(late);
    resnet::forward(in, plane, b, p, s);
  }
};

// Nobody listens to the steps: who does has all ranks agree on each of them, and none is ever
// ahead.
template <class Rule, class Reducer, class Training, class Held>
result train(const plan& p, const Rule& rule, double rate, const Reducer& at,
             const Training& training, const Held& held) {
  network net;
  if (at.link.size() > 1 && at.link.rank() == at.link.size() - 1)
    net.late = std::chrono::milliseconds(p.late);
  const auto norm = normalise::measured(training);
  loader feed{training,
              at.link,
              {.global_batch = p.batch, .seed = p.seed},
              augment{.pad = 2, .flip = true},
              norm};
  trainer run{net,
              rule,
              warmup{p.warmup, polynomial{.peak = rate, .epochs = p.epochs, .power = 2}},
              at,
              {.seed = p.seed}};
  run.fit(feed, p.epochs);
  const score found = run.evaluate(held, norm);
  result r{100 * found.accuracy(), {}};
  if constexpr (requires { at.staleness(); }) r.staleness = at.staleness();
  return r;
}

void tell(const std::string& what, const result& r) {
  double pushes = 0, sum = 0;
  for (std::size_t k = 0; k < r.staleness.size(); ++k) {
    pushes += static_cast<double>(r.staleness[k]);
    sum += static_cast<double>(k) * static_cast<double>(r.staleness[k]);
  }
  std::printf("%-44s %6.2f %%", what.c_str(), r.accuracy);
  if (pushes > 0)
    std::printf("   staleness %.2f, at most %zu", sum / pushes, r.staleness.size() - 1);
  std::printf("\n");
  std::fflush(stdout);
}

void compare(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held) {
    const sgd rule{.momentum = p.momentum, .weight_decay = 5e-4};
    const auto launch = [&](int ranks, const auto& f) {
      result first;
      threads::launch(ranks, [&](threads link) {
        const result mine = f(link);
        if (link.rank() == 0) first = mine;
      });
      return first;
    };
    const auto together = [&](threads link) {
      return train(p, rule, p.rate, server{link}, training, held);
    };
    const auto apart = [&](const std::string& name, const asynchronous& how) {
      tell(name, launch(p.ranks, [&](threads link) {
             const server at{link, how};
             const double share = 1.0 * std::max(1, p.ranks / how.softsync) / p.ranks;
             return train(p, local{rule, 1}, share * p.rate, at, training, held);
           }));
    };
    std::printf("%d ranks, batch %d, %g epochs%s: held-out accuracy\n", p.ranks, p.batch, p.epochs,
                p.late > 0 ? text(", the last rank late by ", p.late, " ms a step").c_str() : "");
    tell("one process", launch(1, together));
    tell("synchronous", launch(p.ranks, together));
    apart("asynchronous", {});
    apart("asynchronous, divided by staleness", {.staleness_aware = true});
    if (!p.sweep) return;
    for (const int ahead : {0, 1, 4})
      apart(text("asynchronous, at most ", ahead, " steps ahead"), {.bound = ahead});
    for (int n = 1; n < p.ranks; n *= 2)
      apart(text("asynchronous, ", n, "-softsync"), {.softsync = n});
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "parameter_server: ResNet-20 on Fashion-MNIST by a server on rank 0, "
                        "synchronous and asynchronous");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                    "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.whole("ranks", 4, "workers, one thread (or more, where cores are left) each");
    p.batch = o.whole("batch", 256, "samples of one step, over all workers");
    p.epochs = o.number("epochs", 6, "passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.rate = o.number("rate", 0.1, "peak rate of the synchronous runs");
    p.momentum = o.number("momentum", 0.9, "asynchrony brings momentum of its own: try less");
    p.late = o.whole("late", 0, "milliseconds that each step of the last rank takes longer");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    p.sweep = o.flag("sweep", "also over bounds of staleness and n-softsync");
    o.done();
    compare(p);
  });
}
