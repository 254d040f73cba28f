// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/awaited_operation.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

TEST_CASE("nccl_awaited_operation: what is pending leaves out receives whose size has arrived") {
  const std::array receives{nccl_transfer{1, nullptr, 16}, nccl_transfer{2, nullptr, 4}};
  const std::array sends{nccl_transfer{2, nullptr, 8}};
  std::array<std::uint64_t, 2> seen{nccl_awaited_operation::unknown, 4};
  const nccl_awaited_operation op{receives, sends, nullptr, seen.data()};
  CHECK_FALSE(op.is_collective());
  CHECK(op.describe_pending(0) ==
        "rank 1 to send 16 bytes, rank 2 to receive 8 bytes on context 0");
  const nccl_awaited_operation mean{.collective = "contribute to a mean"};
  CHECK(mean.is_collective());
  CHECK(mean.describe_pending(3) == "every rank to contribute to a mean on context 3");
}

TEST_CASE("nccl_awaited_operation: another size than expected names ranks, sizes and context") {
  const std::array receives{nccl_transfer{1, nullptr, 16}};
  const nccl_awaited_operation op{receives};
  op.check_size(0, 16, {0, 2}, 2);
  CHECK(support::contains(support::error_message([&] {
                            op.check_size(0, 12, {0, 2}, 2);
                          }),
                          "rank 0 expects 16 bytes from rank 1 on context 2, which sends 12"));
}
