// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <span>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/context.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/device/cpu.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;
using detail::comm::thread_context, detail::comm::thread_world;

namespace {

void copy(std::byte* to, const std::byte* from, std::size_t size, const void*) {
  std::memcpy(to, from, size);
}

void transfer(const thread_context& context, std::span<const send_op<cpu>> out,
              std::span<const recv_op<cpu>> in) {
  context.transfer<cpu>(out, in, copy, {});
}

}  // namespace

TEST_CASE("thread_context: a transfer that fails cancels the sends that no rank has claimed") {
  const auto world = detail::core::counted_ptr<thread_world>::make(2, 50ms);
  const thread_context sender(world, 0, reducer_context), receiver(world, 1, reducer_context);
  std::array<std::byte, 100> x{}, y{};
  const std::array out{send_op<cpu>{1, {x.data(), x.size()}}};
  const std::array in{recv_op<cpu>{0, {y.data(), y.size()}}};
  CHECK(support::contains(support::error_message([&] { transfer(sender, out, {}); }),
                          "rank 0 waited 50 ms for rank 1 to receive 100 bytes on context 0"));
  CHECK(support::contains(support::error_message([&] { transfer(receiver, {}, in); }),
                          "rank 1 aborted: rank 0: rank 0 waited 50 ms"));
}

TEST_CASE("thread_context: a duplicate is the same rank on another context") {
  const auto world = detail::core::counted_ptr<thread_world>::make(1, 1s);
  const thread_context context(world, 0, reducer_context), other = context.duplicate(2);
  CHECK(other.rank() == 0);
  CHECK(other.number() == 2);
  CHECK(&other.world() == world.get());
}
