// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Two meshes of one process.
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/zeromq/mesh.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee::detail::comm;
using cordee::concat;
using support::contains, support::error_message;
using namespace std::chrono_literals;

namespace {

struct two_ranks {
  zeromq_mesh zero{{0, 2, "the test"}, "127.0.0.1", "secret"};
  std::optional<zeromq_mesh> second{std::in_place, rank_assignment{1, 2, "the test"}, "127.0.0.1",
                                    "secret"};
  zeromq_mesh& one = *second;

  two_ranks() {
    const std::vector<std::string> endpoints{concat("tcp://127.0.0.1:", zero.port()),
                                             concat("tcp://127.0.0.1:", one.port())};
    zero.connect(endpoints);
    CHECK(zero.join() != "");  // the other one has not connected
    one.connect(endpoints);
    const auto joined = [&] {
      const std::string missing = zero.join() + one.join();
      return missing.empty();
    };
    CHECK(poll_until(joined, 20s, 1ms));
  }
  template <class Ready>
  bool polled_until(const Ready& ready) {
    return poll_until(
        [&] {
          zero.poll();
          one.poll();
          return ready();
        },
        20s, 1ms);
  }
};

zeromq_header header(int context, std::size_t size) {
  zeromq_header h;
  h.context = static_cast<std::uint8_t>(context);
  h.size = size;
  return h;
}

}  // namespace

TEST_CASE("zeromq_mesh: chunks arrive at their context and peer, in order") {
  two_ranks ranks;
  const std::byte x[3]{std::byte{1}, std::byte{2}, std::byte{3}};
  CHECK(ranks.one.first_sender(2) == -1);
  CHECK(ranks.zero.try_send(1, header(2, 3), x, 3));
  CHECK(ranks.zero.try_send(1, header(2, 1), x + 2, 1));
  CHECK(ranks.polled_until([&] { return ranks.one.at(2, 0).arrived.size() == 2; }));
  CHECK(ranks.one.try_send(1, header(2, 3), x, 3));  // to itself
  CHECK(ranks.polled_until([&] { return ranks.one.at(2, 1).arrived.size() == 1; }));
  CHECK(ranks.one.first_sender(2) == 0);
  auto& arrived = ranks.one.at(2, 0).arrived;
  CHECK(arrived[0].size() == 3);
  CHECK(std::memcmp(arrived[0].data(), x, 3) == 0);
  CHECK(*arrived[1].data() == std::byte{3});
  CHECK(ranks.one.at(1, 0).arrived.empty());
  CHECK(ranks.zero.at(2, 0).arrived.empty());
  CHECK(contains(ranks.one.unreceived(), "rank 0 sent 3 bytes to rank 1 on context 2"));
  arrived.clear();
  CHECK(ranks.one.first_sender(2) == 1);
  ranks.one.at(2, 1).arrived.clear();
  CHECK(ranks.one.unreceived() == "");
}

TEST_CASE("zeromq_mesh: a full queue takes no more, and takes more once the peer has received") {
  two_ranks ranks;
  const std::vector<std::byte> x(zeromq_chunk);
  int sent = 0;
  const auto send_one = [&] {
    zeromq_header h = header(0, x.size());
    return ranks.zero.try_send(1, h, x.data(), x.size());
  };
  const auto full = [&] {
    while (send_one()) ++sent;
    return sent > zeromq_queue_length;
  };
  CHECK(poll_until(full, 20s, 1ms));
  CHECK(sent < 1000);  // libzmq's queues and the system's hold them
  int more = 0;
  CHECK(ranks.polled_until([&] { return (more += send_one() ? 1 : 0) > 0; }));
  CHECK(ranks.polled_until(
      [&] { return ranks.one.at(0, 0).arrived.size() == static_cast<std::size_t>(sent + more); }));
}

TEST_CASE("zeromq_mesh: an answer is counted, and a frame that is none of ours names its rank") {
  two_ranks ranks;
  ranks.one.send_consumed(0, 3);
  CHECK(ranks.polled_until([&] { return ranks.zero.at(3, 1).consumed_sends == 1; }));
  CHECK(ranks.zero.try_send(1, header(0, 9), nullptr, 0));
  const std::string thrown = error_message([&] { ranks.polled_until([] { return false; }); });
  CHECK(contains(thrown, "rank 1 received 24 bytes from rank 0 (127.0.0.1:"));
  CHECK(contains(thrown, "that are no message of this version of cordee"));
}

TEST_CASE("zeromq_mesh: a rank leaves with all that are connected") {
  two_ranks ranks;
  CHECK_FALSE(ranks.zero.leave());
  CHECK(ranks.polled_until([&] { return ranks.one.has_left(0); }));
  CHECK_FALSE(ranks.zero.has_left(1));
  CHECK_FALSE(ranks.zero.leave());
  CHECK(poll_until([&] { return ranks.one.leave() && ranks.zero.leave(); }, 20s, 1ms));
  CHECK(ranks.zero.has_left(1));
}

TEST_CASE("zeromq_mesh: a peer that is disconnected is not waited for, and has not left") {
  two_ranks ranks;
  CHECK_FALSE(ranks.zero.leave());
  ranks.second.reset();
  CHECK(poll_until([&] { return ranks.zero.leave(); }, 20s, 1ms));
  CHECK_FALSE(ranks.zero.has_left(1));
}
