// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The all-reduce of batch norm's statistics over two ranks of a test.
#pragma once

#include <array>
#include <barrier>
#include <span>
#include <vector>

namespace support {

/// Sums over two ranks in rank order, as sync batch norm in the golden values. A call blocks until
/// both ranks have called.
struct two_rank_sum {
  std::barrier<> barrier{2};
  std::array<std::vector<double>, 2> sent;
  std::array<int, 2> calls{};

  struct participant {
    two_rank_sum* shared;
    std::size_t rank;
  };
  static void sum(void* context, std::span<double> x) {
    const participant own = *static_cast<participant*>(context);
    two_rank_sum& m = *own.shared;
    m.sent[own.rank].assign(x.begin(), x.end());
    ++m.calls[own.rank];
    m.barrier.arrive_and_wait();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = m.sent[0].at(i) + m.sent[1].at(i);
    m.barrier.arrive_and_wait();
  }
};

}  // namespace support
