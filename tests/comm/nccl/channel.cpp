// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/channel.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::guest, detail::host, detail::nccl_channel, detail::nccl_parcel;

namespace {

ncclUniqueId new_id() {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  return id;
}

}  // namespace

TEST_CASE("channel: a rank that does not begin is an error at the deadline") {
  const host at(2, 0, 1, 10s);
  guest others({0, 2}, guest::arrive({"127.0.0.1"}, at.port(), {1, 0, 2}));
  const guest silent({1, 2}, guest::arrive({"127.0.0.1"}, at.port(), {1, 1, 2}));
  const std::string said = support::complaint([&] {
    nccl_channel(others, {0, 2}, 3, 0, 500ms, new_id());
  });
  CHECK(support::contains(said, "rank 0 waited 500 ms for every rank to begin on lane 3"));
  CHECK(others.first.stalled());
}

TEST_CASE(
    "channel: a rank talks to itself; what the stream had to do before is not waited for in vain") {
  const host at(1, 0, 1, 10s);
  guest others({0, 1}, guest::arrive({"127.0.0.1"}, at.port(), {1, 0, 1}));
  nccl_channel alone(others, {0, 1}, 0, 0, 1s, new_id());
  int said = 7, heard = 0;
  const cudaStream_t s = alone.own();
  s->hand_over([] { std::this_thread::sleep_for(1500ms); });
  alone.exchange(std::array{nccl_parcel{0, &heard, sizeof heard}},
                 std::array{nccl_parcel{0, &said, sizeof said}}, s);
  CHECK(heard == 7);
  alone.finish();
  CHECK_THROWS_AS(alone.exchange({}, std::array{nccl_parcel{0, &said, sizeof said}}, s), error);
}
