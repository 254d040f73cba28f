// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batches of a rank with itself: one mesh.
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/zeromq/batch.hpp>

using namespace cordee::detail::comm;
using cordee::concat, cordee::cpu, cordee::recv_op, cordee::send_op;
using namespace std::chrono_literals;

namespace {

struct one_rank {
  zeromq_mesh mesh{{0, 1, "the test"}, "127.0.0.1", "secret"};
  one_rank() {
    mesh.connect({concat("tcp://127.0.0.1:", mesh.port())});
    CHECK(poll_until([&] { return mesh.join().empty(); }, 20s, 1ms));
  }
  bool completes(zeromq_batch& batch, std::chrono::milliseconds limit = 20s) {
    return poll_until(
        [&] {
          mesh.poll();
          return batch.progress();
        },
        limit, 1ms);
  }
};

}  // namespace

TEST_CASE("zeromq_batch: what is pending is described, and its peers are known") {
  one_rank rank;
  std::vector<std::byte> x(16), y(16);
  const std::array out{send_op<cpu>{0, {x.data(), 7}}};
  const std::array in{recv_op<cpu>{0, {y.data(), 16}}};
  zeromq_batch receives(rank.mesh, 0, 3, in, {});
  CHECK_FALSE(rank.completes(receives, 20ms));
  CHECK(receives.describe_pending() == "rank 0 to send 16 bytes on context 3");
  int pending = 0;
  receives.for_pending_peers([&](int peer) { pending += peer == 0 ? 1 : 100; });
  CHECK(pending == 1);
  zeromq_batch sends(rank.mesh, 0, 1, {}, out);
  CHECK_FALSE(rank.completes(sends, 20ms));
  CHECK(sends.describe_pending() == "rank 0 to receive 7 bytes on context 1");
}

TEST_CASE(
    "zeromq_batch: a transfer that is longer than the queues does not overtake the one before") {
  one_rank rank;
  const std::size_t n = 60 * zeromq_chunk + 5;
  std::vector<std::byte> x(n, std::byte{1}), y(3, std::byte{2}), a(n), b(3);
  const std::array out{send_op<cpu>{0, {x.data(), n}}, send_op<cpu>{0, {y.data(), 3}}};
  const std::array in{recv_op<cpu>{0, {a.data(), n}}, recv_op<cpu>{0, {b.data(), 3}}};
  zeromq_batch batch(rank.mesh, 0, 0, in, out);
  CHECK_FALSE(batch.progress());  // nothing has been polled
  CHECK(rank.completes(batch));
  CHECK(a == x);
  CHECK(b == y);
}

TEST_CASE("zeromq_batch: synchronous sends are complete one by one, as they are consumed") {
  one_rank rank;
  std::vector<std::byte> x(5), y(5);
  const std::array two{send_op<cpu>{0, {x.data(), 5}}, send_op<cpu>{0, {x.data(), 5}}};
  const std::array in{recv_op<cpu>{0, {y.data(), 5}}};
  zeromq_batch sends(rank.mesh, 0, 0, {}, two);
  CHECK_FALSE(rank.completes(sends, 20ms));
  for (const char* pending : {"rank 0 to receive 5 bytes on context 0", ""}) {
    zeromq_batch receive(rank.mesh, 0, 0, in, {});
    CHECK(rank.completes(receive));
    const std::string expected = pending;
    CHECK(rank.completes(sends, expected.empty() ? 20s : 50ms) == expected.empty());
    if (!expected.empty()) CHECK(sends.describe_pending() == expected);
  }
}
