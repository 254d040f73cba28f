// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where two ranks of a test share batch norm's statistics.
#pragma once

#include <array>
#include <barrier>
#include <span>
#include <vector>

namespace support {

/// Two ranks that meet whenever both have called; the golden values' sync batch norm.
struct meeting {
  std::barrier<> gate{2};
  std::array<std::vector<double>, 2> said;
  std::array<int, 2> calls{};

  struct seat {
    meeting* at;
    std::size_t rank;
  };
  static void sum(void* context, std::span<double> x) {
    const seat own = *static_cast<seat*>(context);
    meeting& m = *own.at;
    m.said[own.rank].assign(x.begin(), x.end());
    ++m.calls[own.rank];
    m.gate.arrive_and_wait();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = m.said[0].at(i) + m.said[1].at(i);
    m.gate.arrive_and_wait();
  }
};

}  // namespace support
