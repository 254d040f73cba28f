// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator with the latency and bandwidth of a network.
#pragma once

#include <chrono>
#include <thread>

#include <cordee/comm/transports/transport.hpp>

namespace support {

using namespace cordee;

/// Wraps a communicator: an exchange takes at least latency + bytes / bandwidth. No fused add.
template <class Communicator>
struct delayed_comm {
  static constexpr bool blocks_host = Communicator::blocks_host;

  Communicator comm;
  double bytes_per_second = 1e9;
  std::chrono::microseconds latency{0};

  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  [[nodiscard]] delayed_comm duplicate(int k) const {
    return {comm.duplicate(k), bytes_per_second, latency};
  }
  void abort(const char* why) const { comm.abort(why); }

  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    std::size_t bytes = 0;
    for (const auto& m : out) bytes += m.bytes.size;
    const auto wire = std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second);
    const auto end = std::chrono::steady_clock::now() + latency + wire;
    comm.exchange(out, in, s);
    std::this_thread::sleep_until(end);
  }
};
template <class Communicator>
delayed_comm(Communicator, double, std::chrono::microseconds) -> delayed_comm<Communicator>;

}  // namespace support
