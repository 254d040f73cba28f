// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/endpoint.hpp>

using namespace cordee::detail::comm;

TEST_CASE("endpoint: each sender has its own queue") {
  endpoint e;
  e.queues = cordee::detail::core::owned_array<spsc_queue>(3);
  REQUIRE(e.queues.size() == 3);
  const std::byte byte{7};
  e.queues[1].push_copy(&byte, 1);
  CHECK(e.queues[0].front() == nullptr);
  CHECK(e.queues[1].front() != nullptr);
  CHECK(e.queues[2].front() == nullptr);
}

TEST_CASE("endpoint: first_sender is the sender of the lowest ticket, over all queues") {
  endpoint e;
  e.queues = cordee::detail::core::owned_array<spsc_queue>(3);
  CHECK(e.first_sender() == -1);
  const std::byte byte{7};
  for (const std::size_t sender : {2u, 0u, 2u, 1u})
    e.queues[sender].push_copy(&byte, 1, e.next_ticket++);
  for (const int sender : {2, 0, 2, 1}) {
    CHECK(e.first_sender() == sender);
    e.queues[static_cast<std::size_t>(sender)].pop();
  }
  CHECK(e.first_sender() == -1);
}
