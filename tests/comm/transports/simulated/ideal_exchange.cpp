// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/ideal_exchange.hpp>

#include "tests/support/simulated_messages.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("simulated: a message ends on both ranks after latency and transfer") {
  CHECK(ends(2, [](auto comm) { comm.rank() == 0 ? send(comm, 1) : receive(comm, 0); }) ==
        std::vector{2.0, 2.0});
}

TEST_CASE("simulated: each message is observed, with its ranks, bytes and times") {
  std::vector<simulated_transfer> seen;
  simulated::options o = slow;
  o.on_transfer = [&](const simulated_transfer& t) { seen.push_back(t); };
  ends(
      2,
      [](auto comm) {
        comm.compute(3);
        comm.rank() == 0 ? send(comm, 1, 16) : receive(comm, 0, 16);
      },
      o);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].from == 0);
  CHECK(seen[0].to == 1);
  CHECK(seen[0].bytes == 16);
  CHECK(seen[0].begin == 3);
  CHECK(seen[0].end == 6);
}

TEST_CASE("simulated: a receive begins when it is posted, and when the send is") {
  CHECK(ends(2, [](auto comm) {
          if (comm.rank() == 1) comm.compute(5);
          comm.rank() == 0 ? send(comm, 1) : receive(comm, 0);
        }) == std::vector{2.0, 7.0});
  CHECK(ends(2, [](auto comm) {
          if (comm.rank() == 0) comm.compute(5);
          comm.rank() == 0 ? send(comm, 1) : receive(comm, 0);
        }) == std::vector{7.0, 7.0});
}

TEST_CASE("simulated: a rank sends one message at a time and receives one at a time, at once") {
  CHECK(ends(3, [](auto comm) {  // rank 0 sends both first
          if (comm.rank() == 0) {
            send(comm, 1);
            send(comm, 2);
          } else {
            receive(comm, 0);
          }
        }) == std::vector{4.0, 2.0, 4.0});
  CHECK(ends(3, [](auto comm) {
          if (comm.rank() != 0) return send(comm, 0);
          const std::array in{recv_op<phantom>{2, {nullptr, 8}}, recv_op<phantom>{1, {nullptr, 8}}};
          comm.exchange(std::span<const send_op<phantom>>{}, std::span<const recv_op<phantom>>(in),
                        phantom::stream{});
        }) == std::vector{4.0, 2.0, 2.0});
  CHECK(ends(2, [](auto comm) {
          const send_op<phantom> out{1 - comm.rank(), {nullptr, 8}};
          const recv_op<phantom> in{1 - comm.rank(), {nullptr, 8}};
          comm.exchange(std::span(&out, 1), std::span(&in, 1), phantom::stream{});
        }) == std::vector{2.0, 2.0});
}
