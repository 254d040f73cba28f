// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/nccl/status.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using support::complaint, support::contains;

TEST_CASE(
    "nccl_check: what is in progress is no failure; a failure has the call's name and NCCL's "
    "words") {
  CHECK(complaint([] {
          detail::nccl_check(ncclSuccess, "call");
          detail::nccl_check(ncclInProgress, "call");
        }) == "");
  const std::string said = complaint([] { detail::nccl_check(ncclInvalidUsage, "ncclGroupEnd"); });
  CHECK(contains(said, "nccl: ncclGroupEnd: invalid usage; NCCL_DEBUG=INFO makes it say more"));
}
