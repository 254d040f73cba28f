// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The runs of bench_science_methods: a network trained by one rank, by ranks on one data set, or by
// ranks on shards of it, and then measured.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/science/dirichlet_shards.hpp"
#include "benchmarks/science/results.hpp"

namespace science {

using namespace cordee;

struct plan {
  double epochs, warmup_epochs, legw_epochs, alpha;
  int ranks, period, micro;
  std::uint64_t shards;  // seed of the shards; 0: that of the run
  bool measures_fit;     // on 10,000 training images in place of those held out
};
struct task {
  int batch;
  double rate;  // of batch 128
  std::uint64_t seed;
};
constexpr int reference_batch = 128;
constexpr double reference_alpha = 0.1;

template <class Net, class Training, class HeldOut>
struct experiment {
  const Training& training;
  const HeldOut& held_out;
  pad_crop_flip augmentation;
  normalize norm;
  plan p;
  bool augments;
  results& table;

  /// The key of a run's line in the table.
  [[nodiscard]] std::string key(const std::string& name, const task& t) const {
    return concat(name, p.measures_fit ? " on training images" : "",
                  p.alpha != reference_alpha ? concat(" alpha ", p.alpha) : "",
                  p.shards != 0 ? concat(" shards ", p.shards) : "",
                  augments ? ",crop and flip," : ",none,", p.epochs, ",", t.batch, ",", t.rate, ",",
                  t.seed);
  }
  [[nodiscard]] loader_options options(int batch, int ranks, std::uint64_t seed) const {
    return {
        .global_batch = batch, .accumulate = std::max(1, batch / ranks / p.micro), .seed = seed};
  }
  template <class Run, class Comm>
  double measure(Run& run, const Comm& comm) const {
    loader sample{
        training, comm, {.global_batch = 1024, .accumulate = 1, .seed = 99}, augmentation, norm};
    recalibrate(run, sample, 4);
    if (p.measures_fit) {
      std::vector<std::size_t> first(std::min<std::size_t>(training.size(), 10'000));
      std::iota(first.begin(), first.end(), std::size_t{});
      return run.evaluate(detail::data::subset{training, first}, norm).accuracy();
    }
    return run.evaluate(held_out, norm).accuracy();
  }
  template <class O, class S>
  double on_one(const task& t, const O& optimizer, const S& schedule) const {
    Net net;
    return by_one(net, t, optimizer, schedule);
  }
  /// The same with gradients uphill.
  template <class O, class S>
  double on_one(const task& t, const O& optimizer, const S& schedule,
                const detail::nn::sharpness_options& uphill) const {
    sharpness_aware<Net> net{uphill};
    return by_one(net, t, optimizer, schedule);
  }
  template <class Model, class O, class S>
  double by_one(Model& net, const task& t, const O& optimizer, const S& schedule) const {
    loader feed{training, self_comm{}, options(t.batch, 1, t.seed), augmentation, norm};
    trainer run{net, optimizer, schedule, solo{}, {.seed = t.seed}};
    run.fit(feed, p.epochs);
    return measure(run, self_comm{});
  }
  template <class O, class S>
  double on_ranks(const task& t, const O& optimizer, const S& schedule) const {
    return on_ranks(t, optimizer, schedule, [](threads comm) { return ring{comm}; });
  }
  /// Over the reducer make(communicator).
  template <class O, class S, class Make>
  double on_ranks(const task& t, const O& optimizer, const S& schedule, const Make& make) const {
    double accuracy = 0;
    threads::launch(p.ranks, [&](threads comm) {
      Net net;
      loader feed{training, comm, options(t.batch, p.ranks, t.seed), augmentation, norm};
      trainer run{net, optimizer, schedule, make(comm), {.seed = t.seed}};
      run.fit(feed, p.epochs);
      const double measured = measure(run, comm);
      if (comm.rank() == 0) accuracy = measured;
    });
    return accuracy;
  }
  /// Until the schedule's scale-invariant epochs reach `end`, at the latest after p.epochs; lines
  /// of the table have the epochs of data and the scale-invariant ones.
  template <class O, class S>
  double on_scale_invariant(const std::string& name, const task& t, const O& optimizer,
                            const S& schedule, double end) const {
    double accuracy = 0, epochs = 0, progress = 0;
    threads::launch(p.ranks, [&](threads comm) {
      Net net;
      loader feed{training, comm, options(t.batch, p.ranks, t.seed), augmentation, norm};
      trainer run{
          net, optimizer, schedule, ring{comm}, {.measure_gradient_noise = true, .seed = t.seed}};
      double epoch = 0;
      while (epoch < p.epochs && run.schedule().progress(epoch) < end)
        run.fit(feed, epoch = std::min(epoch + 1, p.epochs));
      const double measured = measure(run, comm);
      if (comm.rank() == 0) {
        accuracy = measured;
        epochs = epoch;
        progress = run.schedule().progress(epoch);
      }
    });
    table(key(name + " epochs of data", t), [&] { return epochs; });
    table(key(name + " scale-invariant epochs", t), [&] { return progress; });
    return accuracy;
  }
  template <class O, class S, Topology T = topologies::ring>
  double on_shards(const task& t, const O& optimizer, const S& schedule, int batch_norm_over = 1,
                   const T& topology = {}) const {
    const auto shards =
        science::dirichlet_shards(training, p.ranks, p.alpha, p.shards != 0 ? p.shards : t.seed);
    double accuracy = 0;
    threads::launch(p.ranks, [&](threads comm) {
      Net net;
      loader feed{detail::data::subset{training, shards[static_cast<std::size_t>(comm.rank())]},
                  self_comm{},
                  options(t.batch / p.ranks, 1, t.seed + static_cast<std::uint64_t>(comm.rank())),
                  augmentation, norm};
      trainer run{net,
                  optimizer,
                  schedule,
                  gossip{comm, topology},
                  {.batch_norm_over = batch_norm_over, .seed = t.seed}};
      const double samples = static_cast<double>(training.size());
      for (int k = 0; k * t.batch < p.epochs * samples; ++k)
        run.step(feed.next(), k * t.batch / samples);
      const double measured = measure(run, comm);
      if (comm.rank() == 0) accuracy = measured;
    });
    return accuracy;
  }
};

}  // namespace science
