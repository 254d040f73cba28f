// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean by Gloo over its own transport (TCP on this host) and the library's division, with which
// all_reduce.cpp is compared where libgloo-dev is installed. Ranks are threads, each with a
// context.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <cordee/ops/cpu/elementwise.hpp>

#include "benchmarks/all_reduce.hpp"

namespace {

using context = std::shared_ptr<gloo::rendezvous::Context>;
constexpr std::array names{"gloo.ring", "gloo.bcube", "gloo.chunked", "gloo.halving"};
using times = std::array<double, names.size()>;

// Microseconds of each method on this rank's clock, between barriers.
times measure(const context& c, int ranks, std::size_t bytes, int reps) {
  std::vector<float> x(bytes / sizeof(float), static_cast<float>(c->rank));
  const int n = static_cast<int>(x.size()), inner = benchmark::calls_per_timing(bytes);
  const auto reduce = [&](gloo::AllreduceOptions::Algorithm algorithm) {
    return [&, algorithm] {
      gloo::AllreduceOptions o(c);
      o.setOutput(x.data(), x.size());
      o.setReduceFunction([](void* to, const void* a, const void* b, std::size_t size) {
        gloo::sum<float>(to, a, b, size);
      });
      o.setAlgorithm(algorithm);
      gloo::allreduce(o);
    };
  };
  gloo::AllreduceRingChunked<float> chunked(c, {x.data()}, n);
  gloo::AllreduceHalvingDoubling<float> halving_doubling(c, {x.data()}, n);
  const std::array<std::function<void()>, names.size()> methods{
      reduce(gloo::AllreduceOptions::Algorithm::RING),
      reduce(gloo::AllreduceOptions::Algorithm::BCUBE), [&] { chunked.run(); },
      [&] { halving_doubling.run(); }};
  times least;
  least.fill(std::numeric_limits<double>::max());
  gloo::BarrierOptions barrier(c);
  for (int k = 0; k < reps; ++k)
    for (std::size_t m = 0; m < methods.size(); ++m) {
      const auto mean = [&] {
        methods[m]();
        cordee::detail::ops::divide(x.size(), static_cast<float>(ranks), x.data(),
                                    cordee::cpu::stream{});
      };
      mean();
      gloo::barrier(barrier);
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < inner; ++i) mean();
      gloo::barrier(barrier);
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      least[m] = std::min(least[m], time.count() / inner);
    }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  const std::size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  const int reps = argc > 3 ? std::atoi(argv[3]) : 30;
  gloo::rendezvous::HashStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto c = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
      auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
      c->connectFullMesh(store, device);
      const times least = measure(c, ranks, bytes, reps);
      for (std::size_t m = 0; rank == 0 && m < names.size(); ++m)
        benchmark::print(names[m], ranks, bytes, least[m]);
    });
  for (std::thread& t : threads) t.join();
}
