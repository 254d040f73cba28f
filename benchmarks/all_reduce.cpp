// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over ranks that are threads, for every exact reducer: minima over interleaved
// repetitions, where one repetition lasts as long as its slowest rank. Bus bandwidth is
// bytes / time * 2(p-1)/p, as nccl-tests counts it.
#include "benchmarks/all_reduce.hpp"

#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/options.hpp"

using namespace cordee;

namespace {

template <class R>
void mean_with(const R& reducer, std::vector<float>& x, std::vector<std::byte>& scratch) {
  scratch.resize(std::max(scratch.size(), reducer.template scratch<float>(x.size())));
  reducer.mix(
      message<float, cpu, R::slots>{
          nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
      moment{}, cpu::stream{});
}

void measure(int ranks, std::size_t bytes, int reps) {
  const std::size_t n = bytes / sizeof(float);
  const int inner = benchmark::calls_in_a_row(bytes);
  constexpr int methods = 10;
  std::vector<double> least(methods, std::numeric_limits<double>::max());
  threads::launch(ranks, [&](threads link) {
    std::vector<float> x(n, static_cast<float>(link.rank()));
    std::vector<std::byte> scratch;
    const auto timed = [&](int method, const auto& reducer) {
      mean_with(reducer, x, scratch);  // ranks begin together, memory is there
      const auto start = std::chrono::steady_clock::now();
      for (int k = 0; k < inner; ++k) mean_with(reducer, x, scratch);
      std::array slowest{
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count()};
      agree(link, slowest, maximum{});
      auto& mine = least[static_cast<std::size_t>(method)];
      if (link.rank() == 0) mine = std::min(mine, slowest[0] / inner);
    };
    for (int k = 0; k < reps; ++k) {
      timed(0, native{link});
      timed(1, ring{link});
      timed(2, halving{link});
      timed(3, tree{link});
      timed(4, butterfly{link});
      timed(5, double_tree{link});
      timed(6, torus_ring{link});
      timed(7, hierarchical{link, nodes{2}});
      timed(8, all_to_all{link});
      timed(9, hybrid{all_to_all{link}, halving{link}});
    }
  });
  static constexpr const char* names[] = {"native",     "ring",        "halving",    "tree",
                                          "butterfly",  "double_tree", "torus_ring", "hierarchical",
                                          "all_to_all", "hybrid"};
  for (int m = 0; m < methods; ++m)
    benchmark::print(names[m], ranks, bytes, least[static_cast<std::size_t>(m)]);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "all_reduce: the mean over threads, method by method");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int ranks = o.whole("ranks", 4, "threads");
    const int bytes = o.whole("size", 1'000'000, "bytes of a message");
    o.done();
    measure(ranks, static_cast<std::size_t>(bytes), reps);
  });
}
