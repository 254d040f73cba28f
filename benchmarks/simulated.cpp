// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Simulated ranks: how long a simulation takes, and what it predicts.
//
//   bench_simulated ring          ResNet-50's gradient in one bucket at 4,096 ranks
//   bench_simulated reducers      every reducer at 1,024 ranks, ideal
//   bench_simulated bus           bus bandwidths of a ring, beside those that NCCL's users measured
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include <cordee/comm/simulated.hpp>
#include <cordee/cordee.hpp>

namespace {

using namespace cordee;

constexpr std::size_t resnet50 = 25'557'032;  // parameters

/// InfiniBand at 100 Gbit/s.
constexpr link_parameters hundred_gigabit{.latency = 5e-6, .bandwidth = 12.5e9};

/// Eight GPUs a node, 16 nodes a rack: NVLink, eight links of 400 Gbit/s, and half of a rack's
/// bandwidth between racks.
const fat_tree cluster{.gpu = {1e-6, 450e9},
                       .node = {2e-6, 400e9},
                       .rack = {1e-6, 8 * 400e9},
                       .gpus_per_node = 8,
                       .nodes_per_rack = 16};

template <class Make>
simulation mean(int ranks, std::size_t n, const Make& make, const simulated::options& o) {
  return simulated::launch(
      ranks,
      [&](simulated comm) {
        const phantom device = comm.device();
        const auto reducer = make(comm);
        buffer<float, phantom> x(phantom{}, n);
        buffer<std::byte, phantom> scratch(phantom{}, reducer.template scratch<float>(n));
        reducer.mix(bucket_view<float, phantom, 0>{nullptr, x.span(), {}, scratch.span()},
                    step_info{}, device.make_stream());
      },
      o);
}

template <class Make>
void report(const char* name, int ranks, const Make& make, const simulated::options& o) {
  const auto start = std::chrono::steady_clock::now();
  const simulation s = mean(ranks, resnet50, make, o);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%-28s %5d ranks  predicts %9.6f s  %10llu messages  %5llu rounds  took %6.2f s\n",
              name, ranks, s.path.seconds, static_cast<unsigned long long>(s.messages),
              static_cast<unsigned long long>(s.rounds), took.count());
}

/// Bytes a second of each rank's links in a mean over a ring, as nccl-tests define them.
double bus_bandwidth(int ranks, const fat_tree& machine) {
  constexpr std::size_t n = std::size_t{1} << 31;  // 8 GiB
  const simulation s = mean(ranks, n, [](auto comm) { return ring{comm}; }, {.contended = machine});
  return n * sizeof(float) / s.path.seconds * 2 * (ranks - 1) / ranks;
}

void bus() {
  // Stated overheads of the protocol: of its line rate NVLink delivers 82 %, InfiniBand 95 %. A
  // message takes 3 microseconds within a node and 5 between nodes: a path has a way up and a way
  // down of each link.
  const auto nvlink = [](double line) { return link_parameters{3e-6 / 2, 0.82 * line}; };
  const auto infiniband = [](double line) {
    return link_parameters{(5e-6 - 3e-6) / 2, 0.95 * line};
  };
  const auto row = [](const char* system, double low, double high, int ranks, const fat_tree& m) {
    const double predicted = bus_bandwidth(ranks, m) / 1e9, middle = (low + high) / 2;
    std::printf("%-36s measured %3.0f to %3.0f GB/s  predicted %5.1f  %+5.1f %%\n", system, low,
                high, predicted, (predicted / middle - 1) * 100);
  };
  row("8x H100, NVLink 450 GB/s", 365, 370, 8, {nvlink(450e9), infiniband(400e9), {0, 1e15}});
  row("2x 8 A100, 4x 200 Gbit/s", 91, 91, 16, {nvlink(300e9), infiniband(100e9), {0, 1e15}});
  row("16x 8 H100, 8x 400 Gbit/s", 370, 390, 128, {nvlink(450e9), infiniband(400e9), {0, 1e15}});
  row("2x A100, 12 NVLinks of 25 GB/s", 230, 230, 2, {nvlink(300e9), infiniband(100e9), {0, 1e15}});
  row("2x H100 PCIe, NVLink bridge 300 GB/s", 116, 116, 2,
      {nvlink(300e9), infiniband(100e9), {0, 1e15}});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  const simulated::options ideal{.network = {.link = hundred_gigabit}};
  const simulated::options contended{.contended = cluster};
  if (which == "ring") {
    report(
        "ring, ideal", 4096, [](auto comm) { return ring{comm}; }, ideal);
    report(
        "ring, contended", 4096, [](auto comm) { return ring{comm}; }, contended);
  } else if (which == "reducers") {
    constexpr int p = 1024;
    report(
        "ring", p, [](auto comm) { return ring{comm}; }, ideal);
    report(
        "tree", p, [](auto comm) { return tree{comm}; }, ideal);
    report(
        "double tree", p, [](auto comm) { return double_tree{comm}; }, ideal);
    report(
        "butterfly", p, [](auto comm) { return butterfly{comm}; }, ideal);
    report(
        "halving and doubling", p, [](auto comm) { return halving_doubling{comm}; }, ideal);
    report(
        "one-shot", p, [](auto comm) { return one_shot{comm}; }, ideal);
    report(
        "two-shot", p, [](auto comm) { return two_shot{comm}; }, ideal);
    report(
        "hierarchical, nodes of 8", p,
        [](auto comm) {
          return hierarchical{comm, nodes{8}};
        },
        ideal);
    report(
        "torus, 32 x 32", p,
        [](auto comm) {
          return torus_ring{comm, 32};
        },
        ideal);
    report(
        "server", p, [](auto comm) { return server{comm}; }, ideal);
    report(
        "gossip on a ring", p, [](auto comm) { return gossip{comm}; }, ideal);
  } else if (which == "bus") {
    bus();
  } else {
    std::fprintf(stderr, "usage: bench_simulated ring | reducers | bus\n");
    return 2;
  }
}
