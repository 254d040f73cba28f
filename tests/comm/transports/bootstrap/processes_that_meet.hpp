// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Members of one generation, and callers at their meeting points.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/meeting_point.hpp>

namespace support {

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::frame;
using detail::comm::generation;
using detail::comm::generation_history;
using detail::comm::meeting_point;
using detail::comm::member;
using detail::comm::poll_until;
using detail::comm::tcp_connection;
using detail::comm::world_call;

struct process {
  meeting_point point{"127.0.0.1"};
  member self{};
};
// Of one generation.
inline std::vector<process> processes_of(int ranks) {
  std::vector<process> all(static_cast<std::size_t>(ranks));
  generation first{1, 5, {}};
  for (process& p : all) {
    p.self = {first.members.size() + 1, "127.0.0.1", p.point.port()};
    first.members.push_back(p.self);
  }
  for (process& p : all) {
    p.point.secret = "the_secret";
    p.point.history = generation_history(first);
  }
  return all;
}
inline std::optional<frame> answer_to(process& p, const frame& f) {
  tcp_connection c = tcp_connection::connect("127.0.0.1", p.point.port());
  c.send(f);
  std::optional<frame> answer;
  poll_until(
      [&] {
        p.point.receive(std::chrono::steady_clock::now());
        return (answer = c.try_receive()) || c.is_closed();
      },
      300ms, 1ms);
  return answer;
}

}  // namespace support
