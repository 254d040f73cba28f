// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of a transport that can receive from any source: every message of every rank is received
// once, and those of one rank in their order. It is one of transport_laws.hpp.
#pragma once

#include <exception>
#include <thread>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/test_messages.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

// All ranks, rank 0 among them, send three messages to rank 0, which receives from any source.
template <class Communicator>
void check_any_source(const Communicator& comm, report& r) {
  constexpr int count = 3;
  const int p = comm.size(), rank = comm.rank();
  const auto sent = [](int sender, int k) { return message{static_cast<float>(100 * sender + k)}; };
  const Communicator requests = comm.duplicate(comm::request_context);
  const auto send_all = [&] {
    for (int k = 0; k < count; ++k) exchange(requests, {send_to(0, sent(rank, k))}, {});
  };
  if (rank != 0) return send_all();
  const auto send_or_abort = [&] {
    try {
      send_all();
    } catch (const std::exception& e) {
      comm::abort(comm, e.what());
    }
  };
  auto sender = [&] {
    if constexpr (comm::StartsTasks<Communicator>)
      return comm.start_task(send_or_abort);
    else
      return std::thread(send_or_abort);
  }();
  std::vector<int> received(static_cast<std::size_t>(p));
  try {
    for (int k = 0; k < count * p; ++k) {
      std::vector<int> due;
      for (int peer = 0; peer < p; ++peer)
        if (received[static_cast<std::size_t>(peer)] < count) due.push_back(peer);
      const int source = requests.probe_any(due);
      message m(1);
      exchange(requests, {}, {receive_from(source, m)});
      int& index = received[static_cast<std::size_t>(source)];
      r.expect(m == sent(source, index), "next() returned rank ", source,
               ", but its message was not the next one of that rank");
      ++index;
    }
  } catch (...) {
    sender.join();
    throw;
  }
  sender.join();
  for (int peer = 0; peer < p; ++peer)
    r.expect(received[static_cast<std::size_t>(peer)] == count, "rank ", peer, " sent ", count,
             " messages, of which ", received[static_cast<std::size_t>(peer)], " were received");
}

}  // namespace cordee::inline CORDEE_ABI::detail::testing
