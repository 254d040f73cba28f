// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Shared by the allreduce benchmarks, so that they measure in the same way.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer.hpp>

namespace benchmark {

/// Short messages are timed many at a time: a clock and a barrier cost as much as one.
constexpr int calls_per_timing(std::size_t bytes) {
  return bytes <= 64'000 ? 100 : bytes <= 1'000'000 ? 10 : 1;
}

/// Whether a list such as "ring,server" contains the method; the empty list contains all.
inline bool contains(const std::string& methods, const std::string& method) {
  return methods.empty() || ("," + methods + ",").find("," + method + ",") != std::string::npos;
}

/// The least microseconds of each method, in the order of their first use.
class least_times {
 public:
  void add(const std::string& method, double microseconds) {
    const auto before = std::ranges::find(times_, method, &entry::first);
    if (before == times_.end())
      times_.emplace_back(method, microseconds);
    else
      before->second = std::min(before->second, microseconds);
  }
  [[nodiscard]] auto begin() const { return times_.begin(); }
  [[nodiscard]] auto end() const { return times_.end(); }

 private:
  using entry = std::pair<std::string, double>;
  std::vector<entry> times_;
};

/// x <- its mean over the ranks.
template <class R>
void mean_with(const R& reducer, std::vector<float>& x, std::vector<std::byte>& scratch) {
  scratch.resize(std::max(scratch.size(), reducer.template scratch<float>(x.size())));
  reducer.mix(
      cordee::bucket_view<float, cordee::cpu, R::slots>{
          nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
      cordee::step_info{}, cordee::cpu::stream{});
}
/// Times `calls` means; rank 0 adds what the slowest rank took for one. Collective.
template <class R>
void time_mean(const char* method, const R& reducer, int calls, std::vector<float>& x,
               std::vector<std::byte>& scratch, least_times& least) {
  mean_with(reducer, x, scratch);  // synchronises the ranks, touches the memory
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < calls; ++k) mean_with(reducer, x, scratch);
  std::array slowest{
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count()};
  cordee::allreduce_host(reducer.comm, slowest, cordee::reduce_op::max);
  if (reducer.comm.rank() == 0) least.add(method, slowest[0] / calls);
}

/// Prints "native ranks 4 bytes 1000 us 3.21 GB/s 0.47" and `more`.
inline void print(const char* method, int ranks, std::size_t bytes, double microseconds,
                  const char* more = "") {
  std::printf("%-16s ranks %d bytes %9zu us %10.2f GB/s %6.2f%s\n", method, ranks, bytes,
              microseconds,
              static_cast<double>(bytes) / microseconds / 1e3 * 2 * (ranks - 1) / ranks, more);
  std::fflush(stdout);
}

}  // namespace benchmark
