// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The all-reduce of batch norm's statistics over the ranks of a test, each a thread.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace support {

/// Sums in rank order, as sync batch norm in the golden values. A call blocks until all ranks have
/// called.
struct rank_sum {
  std::barrier<> barrier;
  std::vector<std::vector<double>> sent;
  std::vector<int> calls;

  explicit rank_sum(std::size_t ranks)
      : barrier(static_cast<std::ptrdiff_t>(ranks)), sent(ranks), calls(ranks) {}

  struct participant {
    rank_sum* shared;
    std::size_t rank;
  };
  static void sum(void* context, std::span<double> x) {
    const participant own = *static_cast<participant*>(context);
    rank_sum& m = *own.shared;
    m.sent[own.rank].assign(x.begin(), x.end());
    ++m.calls[own.rank];
    m.barrier.arrive_and_wait();
    std::fill(x.begin(), x.end(), 0.0);
    for (const auto& part : m.sent)
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += part.at(i);
    m.barrier.arrive_and_wait();
  }
  /// f(participant) on a thread of each rank.
  template <class F>
  void on_each_rank(const F& f) {
    std::vector<participant> participants;
    for (std::size_t r = 0; r < sent.size(); ++r) participants.push_back({this, r});
    std::vector<std::thread> threads;
    for (participant& self : participants) threads.emplace_back([&f, &self] { f(self); });
    for (auto& t : threads) t.join();
  }
};

}  // namespace support
