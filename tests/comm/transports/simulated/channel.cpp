// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/channel.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

TEST_CASE("simulated channel: messages leave in their order, with the bytes they had") {
  simulated_channel channel;
  CHECK(channel.empty());
  std::array<std::byte, 2> data{std::byte{1}, std::byte{2}};
  simulated_message first{{}, 0, 2}, second{{}, 0, 0};
  first.copy_from(data.data());
  data.fill(std::byte{0});
  channel.push(std::move(first));
  channel.push(std::move(second));
  CHECK(channel.front().size == 2);
  channel.pop().copy_to(data.data());
  CHECK(data == std::array{std::byte{1}, std::byte{2}});
  CHECK(channel.pop().size == 0);
  CHECK(channel.empty());
  channel.push({{}, 7, 3});
  CHECK(channel.pop().rounds == 7);
}
