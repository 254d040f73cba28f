// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of reducers over the test double of NCCL; those with subgroups are in
// reducers_of_groups.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>

#include "tests/support/nccl_double_reducers.hpp"

using namespace cordee;
using support::reducer_violations, support::wrong_on_device;

TEST_CASE("nccl: every exact reducer, NCCL's own mean among them, keeps the laws of reducers") {
  CHECK(reducer_violations([](nccl comm) { return ring{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return tree{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return butterfly{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return halving_doubling{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return one_shot{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return two_shot{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return native{comm}; }) == "");
}

TEST_CASE("nccl: every exact reducer computes the mean in GPU memory") {
  CHECK(wrong_on_device([](nccl comm) { return ring<nccl>{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return tree<nccl>{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return butterfly<nccl>{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return halving_doubling<nccl>{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return one_shot<nccl>{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return two_shot<nccl>{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return native<nccl>{comm}; }) == "");
}
