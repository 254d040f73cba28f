// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over ranks that are threads, for every exact reducer: minima over interleaved
// repetitions, where one repetition lasts as long as its slowest rank. Bus bandwidth is
// bytes / time * 2(p-1)/p, as nccl-tests counts it.
#include "benchmarks/all_reduce.hpp"

#include <cstdio>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/options.hpp"

using namespace cordee;

namespace {

void measure(int ranks, std::size_t bytes, int reps, const std::string& methods) {
  const std::size_t n = bytes / sizeof(float);
  const int inner = benchmark::calls_per_timing(bytes);
  benchmark::least_times least;
  threads::launch(ranks, [&](threads comm) {
    std::vector<float> x(n, static_cast<float>(comm.rank()));
    std::vector<std::byte> scratch;
    const auto timed = [&](const char* method, const auto& reducer) {
      if (!benchmark::contains(methods, method)) return;
      benchmark::time_mean(method, reducer, inner, x, scratch, least);
    };
    for (int k = 0; k < reps; ++k) {
      timed("native", native{comm});
      timed("ring", ring{comm});
      timed("halving_doubling", halving_doubling{comm});
      timed("tree", tree{comm});
      timed("butterfly", butterfly{comm});
      timed("double_tree", double_tree{comm});
      timed("torus_ring", torus_ring{comm});
      timed("hierarchical", hierarchical{comm, nodes{2}});
      timed("one_two_shot", hybrid{one_shot{comm}, two_shot{comm}, 1u << 10});
      timed("hybrid",
            hybrid{hybrid{one_shot{comm}, two_shot{comm}, 1u << 10}, halving_doubling{comm}});
      timed("server", server{comm});
    }
  });
  for (const auto& [method, us] : least) benchmark::print(method.c_str(), ranks, bytes, us);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "all_reduce: the mean over threads, method by method");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int ranks = o.whole("ranks", 4, "threads");
    const int bytes = o.whole("size", 1'000'000, "bytes of a message");
    const std::string methods = o.string("methods", "", "such as ring,server; all by default");
    o.done();
    measure(ranks, static_cast<std::size_t>(bytes), reps, methods);
  });
}
