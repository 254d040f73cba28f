// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/testing/test_messages.hpp>

using namespace cordee;
using namespace cordee::detail::testing;

TEST_CASE("test_messages: thirds differ between ranks, and arrive with their bits") {
  CHECK(same_bits(thirds(2, 5), thirds(2, 5)));
  CHECK_FALSE(same_bits(thirds(2, 5), thirds(3, 5)));
  CHECK_FALSE(same_bits(thirds(2, 5), thirds(2, 4)));
  message received(5);
  exchange(self_comm{}, {send_to(0, thirds(2, 5))}, {receive_from(0, received)});
  CHECK(same_bits(received, thirds(2, 5)));
}
