// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Single messages between simulated ranks: on links of latency 1 and bandwidth 8 one of 8 bytes
// takes 1 + 8 / 8 = 2 seconds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cordee/comm/transports/simulated.hpp>

namespace support {

using namespace cordee;

inline const simulated::options slow{.network = {.link = {.latency = 1, .bandwidth = 8}}};

inline void send(const simulated& comm, int peer, std::size_t size = 8) {
  const send_op<phantom> out{peer, {nullptr, size}};
  comm.exchange(std::span(&out, 1), std::span<const recv_op<phantom>>{}, phantom::stream{});
}
inline void receive(const simulated& comm, int peer, std::size_t size = 8) {
  const recv_op<phantom> in{peer, {nullptr, size}};
  comm.exchange(std::span<const send_op<phantom>>{}, std::span(&in, 1), phantom::stream{});
}

/// The clocks at which the ranks end.
template <class F>
std::vector<double> ends(int ranks, const F& f, const simulated::options& o = slow) {
  std::vector<double> seconds(static_cast<std::size_t>(ranks));
  simulated::launch(
      ranks,
      [&](simulated comm) {
        f(comm);
        seconds[static_cast<std::size_t>(comm.rank())] = comm.now();
      },
      o);
  return seconds;
}

}  // namespace support
