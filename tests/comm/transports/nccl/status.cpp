// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/status.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using support::error_message, support::contains;

TEST_CASE(
    "nccl_check: an operation in progress is no error; an error has the call's name and NCCL's "
    "text") {
  CHECK(error_message([] {
          detail::comm::nccl_check(ncclSuccess, "call");
          detail::comm::nccl_check(ncclInProgress, "call");
        }) == "");
  const std::string message =
      error_message([] { detail::comm::nccl_check(ncclInvalidUsage, "ncclGroupEnd"); });
  CHECK(contains(message, "nccl: ncclGroupEnd: invalid usage; set NCCL_DEBUG=INFO for more"));
}
