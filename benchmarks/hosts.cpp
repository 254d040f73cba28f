// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of a trainer over ZeroMQ on hosts with slow links, beside the simulated transport's. Ranks
// are those of the environment; benchmarks/hosts.sh starts them by scripts/hosts:
//
//   sudo scripts/hosts 4 --rate 1gbit -- BENCH_HOSTS MODEL GBIT [REPS [LATENCY_US [BUCKET_KB]]]
//
// GBIT 0 prints the tensors for torch_hosts.py. MODEL is resnet20 or resnet50: its tensors, with
// computation that is emulated by sleeping, equally long for each convolution, forward half as long
// as backward, so that ranks that share few cores do not lengthen one another's; bytes, reductions
// and updates are real. Or resnet20-kernels: ResNet-20's kernels on 16 images a rank.
//
// Beside kernels the simulated step is printed with longer computation, too, since the exchange
// takes processor time from it: a step's processor time over all ranks beyond that of the same step
// without an exchange, divided by the cores. Waits that yield are contained: it is an upper bound.
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
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>

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

/// Computation that sleeps.
struct sleeping_workload {
  step_profile profile;
  static constexpr bool computes = false;
  void set_computation(double) {}
  [[nodiscard]] custom_model<no_data> make() const { return model_of(profile); }
  static void step(auto& t, int ranks) { t.step(no_data{}, ranks, 0); }

 private:
  static custom_model<no_data> model_of(const step_profile& profile);
};

custom_model<no_data> sleeping_workload::model_of(const step_profile& profile) {
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

/// ResNet-20's own.
struct kernel_workload {
  using net_type = resnet<20, fp32, cpu>;
  static constexpr int images = 16;
  static constexpr bool computes = true;
  step_profile profile = profile_of<net_type>(0);
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(images * net_type::input.size(), 99);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(images, 3);

  /// Kernels of forward and backward, as long as measured.
  void set_computation(double seconds) { profile = profile_of<net_type>(seconds * 2 / 3); }
  static net_type make() { return {}; }
  void step(auto& t, int ranks) {
    const std::array micro{batch<cpu>{{pixels.data(), pixels.size()},
                                      {labels.data(), labels.size()},
                                      images,
                                      images * ranks,
                                      1,
                                      {}}};
    t.step(micro, 0);
  }
};

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
// User and system time of this process.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct times {
  double least = std::numeric_limits<double>::infinity(), worst = 0;
  double processor = 0;  // of a step, of all ranks, for each core; the mean
};

template <class Workload>
struct bench {
  const zeromq& comm;
  Workload& work;
  int reps;
  link_parameters link;
  std::size_t bucket_bytes;
  nodes hosts = nodes::by_host(comm);
  double computed = 0, processor_computed = 0, update = 0;

  // Steps of a trainer with this optimizer and reducer; the first period is not counted. The least
  // is the mean of the least times of each of a period's steps.
  times run(const auto& optimizer, const auto& reducer, bool overlap, int period = 1) const {
    auto model = work.make();
    trainer t{model,
              optimizer,
              constant{1e-3},
              reducer,
              {.bucket_bytes = bucket_bytes, .overlap = overlap}};
    times all;
    double processor = 0;
    std::vector<double> least(static_cast<std::size_t>(period), all.least);
    for (int k = 0; k <= reps; ++k) {
      const double before = processor_seconds();
      double seconds = 0;
      for (double& at : least) {
        const double s = slowest(comm, [&] { work.step(t, comm.size()); });
        if (k > 0 || reps == 0) at = std::min(at, s);
        seconds += s / period;
      }
      if (k == 0 && reps > 0) continue;
      processor += (processor_seconds() - before) / period;
      all.worst = std::max(all.worst, seconds);
    }
    all.least = 0;
    for (const double s : least) all.least += s / period;
    std::array<double, 1> sum{processor / std::max(1, reps)};
    allreduce_host(comm, sum, reduce_op::sum);
    all.processor = sum[0] / detail::core::core_count();
    return all;
  }
  // With computation that is longer by this share.
  [[nodiscard]] double simulate(const auto& make, int period, double longer) const {
    step_profile p = work.profile;
    p.optimizer = update;
    for (double* const t : {&p.forward, &p.optimizer}) *t *= 1 + longer;
    for (double& t : p.backward) t *= 1 + longer;
    simulated::options o{.network = {.link = link}};
    if (const int per_host = comm.size() / hosts.count(comm.size()); per_host > 1)
      o.contended = fat_tree{.gpu = {link.latency / 4, 2e9},
                             .node = {link.latency / 4, link.bandwidth},
                             .rack = {0, 1e12},
                             .gpus_per_node = per_host};
    return simulate_steps(comm.size(), p, make, o,
                          {.steps = period, .period = period, .bucket_bytes = bucket_bytes})
        .seconds;
  }
  void report(const char* name, const times& t, const auto& make, int period = 1) const {
    if (comm.rank() != 0) return;
    const auto print = [&](const char* what, double seconds) {
      std::printf("%s %9.1f ms %+5.1f %%", what, 1e3 * seconds, 100 * (seconds / t.least - 1));
    };
    std::printf("%-24s %9.1f %9.1f ms", name, 1e3 * t.least, 1e3 * t.worst);
    print("  simulated", simulate(make, period, 0));
    if (Workload::computes) {
      const double processor = std::max(0.0, t.processor - processor_computed);
      std::printf("  processor %6.1f ms", 1e3 * processor);
      print(", with it", simulate(make, period, processor / computed));
    }
    std::puts("");
    std::fflush(stdout);
  }

  void measure() {
    const times alone = run(sgd{}, solo{}, true);
    computed = alone.least;
    processor_computed = alone.processor;
    work.set_computation(computed);
    const step_profile& profile = work.profile;
    update = std::max(0.0, computed - profile.forward - profile.backward_total());
    const auto buckets = detail::core::make_buckets(profile.table, bucket_bytes / sizeof(float));
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
          "computation %.1f to %.1f ms (update %.1f), exchange %.1f ms in %zu buckets, %.1f ms "
          "behind "
          "backward: %.1f ms of it hidden, %.0f %% of the exchange, %.0f %% of the %.1f ms that "
          "can "
          "be\n",
          1e3 * computed, 1e3 * alone.worst, 1e3 * update, 1e3 * exchange, buckets.size(),
          1e3 * behind.least, 1e3 * hidden, 100 * hidden / exchange, 100 * hidden / most,
          1e3 * most);
    const auto of_ring = [](auto c) { return ring{c}; };
    const auto of_hosts = [&](auto c) { return hierarchical{c, hosts}; };
    const auto of_halves = [](auto c) { return halving_doubling{c}; };
    const auto of_two = [](auto c) { return two_shot{c}; };
    const auto of_codes = [](auto c) { return compressed{ring{c}, fp16{}}; };
    report("ring, overlapped", beside, of_ring);
    report("halving_doubling", run(sgd{}, of_halves(comm), true), of_halves);
    report("hierarchical, by_host", run(sgd{}, of_hosts(comm), true), of_hosts);
    report("two_shot", run(sgd{}, of_two(comm), true), of_two);
    report("compressed, fp16", run(sgd{}, of_codes(comm), true), of_codes);
    report("local_steps, 8", run(local_steps{sgd{}, 8}, ring{comm}, true, 8), of_ring, 8);
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view name = argc > 1 ? argv[1] : "resnet20";
  const double gigabits = argc > 2 ? std::atof(argv[2]) : 1;
  const int reps = argc > 3 ? std::atoi(argv[3]) : 5;
  const double latency = (argc > 4 ? std::atof(argv[4]) : 50) * 1e-6;
  const bool is_large = name == "resnet50";
  sleeping_workload sleeping{is_large ? profile_of<resnet<50, fp32, cpu>>(0.6)
                                      : profile_of<resnet<20, fp32, cpu>>(0.04)};
  const step_profile& profile = sleeping.profile;
  const int bucket_kb = argc > 5 ? std::atoi(argv[5]) : is_large ? 4096 : 128;
  const std::size_t bucket_bytes = static_cast<std::size_t>(bucket_kb) << 10;
  // A frame of 1,514 bytes, which tc counts, has 1,448 of data.
  const link_parameters link{latency, gigabits * 1e9 / 8 * 1448 / 1514};
  if (gigabits == 0) {
    for (std::size_t k = 0; k < profile.table.size(); ++k)
      std::printf("%zu %.9f\n", profile.table[k].size, profile.backward[k]);
    return 0;
  }
  zeromq::launch(
      [&](zeromq comm) {
        const nodes hosts = nodes::by_host(comm);
        // The hosts share this machine's cores.
        const cpu::worker_limit own(std::max(1, detail::core::core_count() / comm.size()));
        if (comm.rank() == 0)
          std::printf(
              "%s, %d ranks on %d hosts, %g Gb/s, %.1f MB in buckets of at most %zu KB\n",
              std::string(name).c_str(), comm.size(), hosts.count(comm.size()), gigabits,
              4e-6 * static_cast<double>(profile.table.back().offset + profile.table.back().size),
              bucket_bytes >> 10);
        if (name == "resnet20-kernels") {
          kernel_workload kernels;
          bench<kernel_workload>{comm, kernels, reps, link, bucket_bytes}.measure();
        } else {
          bench<sleeping_workload>{comm, sleeping, reps, link, bucket_bytes}.measure();
        }
      },
      {.listen = "*"});
} catch (const std::exception& e) {
  std::fprintf(stderr, "hosts: %s\n", e.what());
  return 1;
}
