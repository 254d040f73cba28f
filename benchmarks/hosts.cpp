// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of a trainer over ZeroMQ on hosts with slow links, beside the simulated transport's. Ranks
// are those of the environment; benchmarks/hosts.sh starts them by scripts/hosts:
//
//   sudo scripts/hosts 4 --rate 1gbit -- build/release/bench_hosts MODEL GBIT [REPS [LATENCY_US]]
//
// GBIT 0 prints the tensors for torch_hosts.py. MODEL is resnet20 or resnet50: its tensors.
// Computation is emulated by sleeping, equally long for each convolution, forward half as long as
// backward, so that ranks that share few cores do not lengthen one another's; bytes, reductions and
// updates are real.
//
// Only part of the communication can be hidden: a bucket's exchange begins when its gradients are
// ready, so the first begins when backward has passed its layers, and the last ends after backward.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <cordee/comm/simulated.hpp>
#include <cordee/comm/simulated/step.hpp>
#include <cordee/comm/zeromq.hpp>
#include <cordee/cordee.hpp>

using namespace cordee;
using clock_type = std::chrono::steady_clock;

namespace {

struct no_data {};

// Tensors of a network and the seconds of backward in each.
template <class Net>
step_profile profile_of(double backward) {
  const std::span<const segment> all = Net::segments();
  step_profile p;
  p.table.assign(all.begin(), all.begin() + detail::core::count_trainable(all));
  const auto is_layer = [](const segment& t) { return t.kind == kind::weight; };
  const auto layers = std::ranges::count_if(p.table, is_layer);
  for (const segment& t : p.table)
    p.backward.push_back(is_layer(t) ? backward / static_cast<double>(layers) : 0);
  p.forward = backward / 2;
  return p;
}

custom_model<no_data> model_of(const step_profile& profile) {
  parameter_list list;
  for (std::size_t k = 0; k < profile.table.size(); ++k)
    list.add(concat("t", k), {static_cast<int>(profile.table[k].size)}, profile.table[k].kind);
  return {
      list, [profile](const no_data&, auto& pass) {
        const auto start = clock_type::now();
        double until = profile.forward;
        for (std::size_t k = profile.table.size(); k-- > 0;) {
          until += profile.backward[k];
          std::this_thread::sleep_until(start + std::chrono::duration_cast<clock_type::duration>(
                                                    std::chrono::duration<double>(until)));
          pass.ready(k);  // gradients stay 0
        }
        return metrics{.count = 1};
      }};
}

// Seconds of the slowest rank.
double slowest(const zeromq& comm, const auto& f) {
  std::array<double, 1> seconds{};
  allreduce_host(comm, seconds, reduce_op::max);  // they begin together
  const auto start = clock_type::now();
  f();
  seconds[0] = std::chrono::duration<double>(clock_type::now() - start).count();
  allreduce_host(comm, seconds, reduce_op::max);
  return seconds[0];
}

struct times {
  double least = std::numeric_limits<double>::infinity(), worst = 0;
};

struct bench {
  const zeromq& comm;
  const step_profile& profile;
  int reps;
  link_parameters link;
  std::size_t bucket_bytes;

  // Steps of a trainer with this optimizer and reducer; the first one is not counted. `period`: of
  // local steps, which are timed together.
  times run(const auto& optimizer, const auto& reducer, bool overlap, int period = 1) const {
    auto model = model_of(profile);
    trainer t{model,
              optimizer,
              constant{1e-3},
              reducer,
              {.bucket_bytes = bucket_bytes, .overlap = overlap}};
    times all;
    for (int k = 0; k <= reps; ++k) {
      const double s = slowest(comm,
                               [&] {
                                 for (int i = 0; i < period; ++i) t.step(no_data{}, comm.size(), 0);
                               }) /
                       period;
      if (k > 0 || reps == 0) all = {std::min(all.least, s), std::max(all.worst, s)};
    }
    return all;
  }
  [[nodiscard]] double simulate(const auto& make, double update, int period = 1) const {
    step_profile p = profile;
    p.optimizer = update;
    return simulate_steps(comm.size(), p, make, {.network = {.link = link}},
                          {.steps = period, .period = period, .bucket_bytes = bucket_bytes})
        .seconds;
  }
  void report(const char* name, const times& t, double predicted) const {
    if (comm.rank() == 0)
      std::printf("%-24s %9.1f %9.1f ms  simulated %9.1f ms  %+5.1f %%\n", name, 1e3 * t.least,
                  1e3 * t.worst, 1e3 * predicted, 100 * (predicted / t.least - 1));
    std::fflush(stdout);
  }

  void measure() const {
    const auto buckets = detail::core::make_buckets(profile.table, bucket_bytes / sizeof(float));
    const double computed = run(sgd{}, solo{}, true).least;
    const double update = std::max(0.0, computed - profile.forward - profile.backward_total());
    const times behind = run(sgd{}, ring{comm}, false), beside = run(sgd{}, ring{comm}, true);
    double first_ready = 0;
    for (std::size_t k = profile.table.size(); k-- > buckets[0].first_segment;)
      first_ready += profile.backward[k];
    std::size_t total = 0;
    for (const bucket& b : buckets) total += b.size;
    const double exchange = behind.least - computed;
    const double last = exchange * static_cast<double>(buckets[buckets.size() - 1].size) /
                        static_cast<double>(total);
    const double most = std::min(profile.backward_total() - first_ready, exchange - last);
    const double hidden = behind.least - beside.least;
    if (comm.rank() == 0)
      std::printf(
          "computation %.1f ms (update %.1f), exchange %.1f ms in %zu buckets: %.1f ms of it "
          "hidden, %.0f %% of the exchange, %.0f %% of the %.1f ms that can be\n",
          1e3 * computed, 1e3 * update, 1e3 * exchange, buckets.size(), 1e3 * hidden,
          100 * hidden / exchange, 100 * hidden / most, 1e3 * most);
    const auto of_ring = [](auto c) { return ring{c}; };
    report("ring, overlapped", beside, simulate(of_ring, update));
    report("ring, behind backward", behind, computed + exchange);
    report("halving_doubling", run(sgd{}, halving_doubling{comm}, true),
           simulate([](auto c) { return halving_doubling{c}; }, update));
    const nodes hosts = nodes::by_host(comm);
    report("hierarchical, by_host", run(sgd{}, hierarchical{comm, hosts}, true),
           simulate(
               [&](auto c) {
                 return hierarchical{c, hosts};
               },
               update));
    report("compressed, fp16", run(sgd{}, compressed{ring{comm}, fp16{}}, true),
           simulate(
               [](auto c) {
                 return compressed{ring{c}, fp16{}};
               },
               update));
    report("local_steps, 8", run(local_steps{sgd{}, 8}, ring{comm}, true, 8),
           simulate(of_ring, update, 8));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view name = argc > 1 ? argv[1] : "resnet20";
  const double gigabits = argc > 2 ? std::atof(argv[2]) : 1;
  const int reps = argc > 3 ? std::atoi(argv[3]) : 5;
  const double latency = (argc > 4 ? std::atof(argv[4]) : 50) * 1e-6;
  const bool is_large = name == "resnet50";
  const step_profile profile =
      is_large ? profile_of<resnet<50, fp32, cpu>>(0.6) : profile_of<resnet<20, fp32, cpu>>(0.04);
  const std::size_t bucket_bytes = is_large ? std::size_t{4} << 20 : std::size_t{128} << 10;
  // A frame of 1,514 bytes, which tc counts, has 1,448 of data.
  const link_parameters link{latency, gigabits * 1e9 / 8 * 1448 / 1514};
  if (gigabits == 0) {
    for (std::size_t k = 0; k < profile.table.size(); ++k)
      std::printf("%zu %.9f\n", profile.table[k].size, profile.backward[k]);
    return 0;
  }
  zeromq::launch(
      [&](zeromq comm) {
        if (comm.rank() == 0)
          std::printf(
              "%s, %d ranks, %g Gb/s, %.1f MB in buckets of at most %zu KB\n",
              is_large ? "resnet50" : "resnet20", comm.size(), gigabits,
              4e-6 * static_cast<double>(profile.table.back().offset + profile.table.back().size),
              bucket_bytes >> 10);
        bench{comm, profile, reps, link, bucket_bytes}.measure();
      },
      {.listen = "*"});
} catch (const std::exception& e) {
  std::fprintf(stderr, "hosts: %s\n", e.what());
  return 1;
}
