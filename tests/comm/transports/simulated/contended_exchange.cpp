// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/simulated/contended_exchange.hpp>

#include "tests/support/simulated_mean.hpp"
#include "tests/support/simulated_messages.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Two GPUs a node, two nodes a rack; links of 8 bytes a second, and one second for each.
const simulated::options shared{.contended = fat_tree{{1, 8}, {1, 8}, {1, 8}, 2, 2}};

}  // namespace

TEST_CASE("contended exchange: a message leaves when both sides have posted it, and both wait") {
  CHECK(ends(
            2,
            [](auto comm) {
              if (comm.rank() == 1) comm.compute(5);
              comm.rank() == 0 ? send(comm, 1) : receive(comm, 0);
            },
            shared) == std::vector{8.0, 8.0});
  CHECK(ends(
            2,
            [](auto comm) {
              if (comm.rank() == 0) comm.compute(5);
              comm.rank() == 0 ? send(comm, 1) : receive(comm, 0);
            },
            shared) == std::vector{8.0, 8.0});
}

TEST_CASE("contended exchange: two messages share the way out of a node") {
  // 0 -> 2 and 1 -> 3: four latencies, then 8 bytes at 4 a second.
  CHECK(ends(
            4,
            [](auto comm) {
              comm.rank() < 2 ? send(comm, comm.rank() + 2) : receive(comm, comm.rank() - 2);
            },
            shared) == std::vector{6.0, 6.0, 6.0, 6.0});
}

TEST_CASE("contended exchange: messages of a pair meet their receives in order") {
  CHECK(ends(
            2,
            [](auto comm) {
              if (comm.rank() == 1) {
                comm.compute(1);
                const std::array out{send_op<phantom>{0, {nullptr, 8}},
                                     send_op<phantom>{0, {nullptr, 16}}};
                comm.template exchange<phantom>(out, {}, phantom::stream{});
              } else {
                const std::array in{recv_op<phantom>{1, {nullptr, 8}},
                                    recv_op<phantom>{1, {nullptr, 16}}};
                comm.template exchange<phantom>({}, in, phantom::stream{});
              }
            },
            shared) == std::vector{6.0, 6.0});  // two latencies, 16 bytes at half, 8 alone
}

TEST_CASE(
    "contended exchange: many messages that wait meet their receives in order, or the reverse") {
  constexpr std::size_t count = 200;
  for (const int late : {0, 1}) {
    const auto times = ends(
        2,
        [&](auto comm) {
          if (comm.rank() == late) comm.compute(1);
          std::vector<send_op<phantom>> out;
          std::vector<recv_op<phantom>> in;
          for (std::size_t k = 1; k <= count; ++k)
            if (comm.rank() == 0)
              out.push_back({1, {nullptr, 8 * k}});
            else
              in.push_back({0, {nullptr, 8 * k}});
          comm.template exchange<phantom>(out, in, phantom::stream{});
        },
        shared);
    for (const double t : times)  // one second late, two latencies, all bytes over one link
      CHECK(std::abs(t - (3 + count * (count + 1) / 2)) < 1e-6);
  }
}

TEST_CASE("contended exchange: a probe finds what is sent first, not what a fiber posts first") {
  std::vector<int> order;
  simulated::launch(
      4,
      [&](simulated comm) {
        const simulated requests = comm.duplicate(detail::comm::request_context);
        if (comm.rank() == 0)
          for (int k = 0; k < 2; ++k) {
            order.push_back(requests.probe_any({}));
            receive(requests, order.back());
          }
        if (comm.rank() == 1) {  // which runs ahead of rank 2
          comm.compute(10);
          send(requests, 0);
        }
        if (comm.rank() == 2) {
          receive(comm, 3);  // to 3 seconds
          send(requests, 0);
        }
        if (comm.rank() == 3) send(comm, 2);
      },
      shared);
  CHECK(order == std::vector{2, 1});
}

TEST_CASE("contended exchange: a ring's step takes its slowest link") {
  // Four ranks on two nodes, 32 bytes: six steps of 8 bytes across nodes, four latencies each.
  const simulation s = simulated_mean(
      4, 8, [](auto comm) { return ring{comm}; }, shared);
  CHECK(s.path.seconds == 6 * (4 + 1));
  CHECK(s.path.messages == 6);
  CHECK(s.path.bytes == 48);
  CHECK(s.rounds == 6);
}

TEST_CASE("contended exchange: a rank's port is shared by what it sends at once") {
  // Two messages of 8 bytes out of each GPU leave its node, four in all: after four latencies each
  // has 2 bytes a second. That inside of the node has arrived before. This twice.
  const simulation s = simulated_mean(
      4, 8, [](auto comm) { return two_shot{comm}; }, shared);
  CHECK(s.path.seconds == 2 * (4 + 4));
  CHECK(s.messages == 4 * 2 * 3);
}

TEST_CASE("contended exchange: two runs have the same times") {
  const auto run = [] {
    return simulated_mean(
               8, 1001, [](auto comm) { return two_shot{comm}; }, shared)
        .path.seconds;
  };
  CHECK(run() == run());
}
