// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of reducers over the double of NCCL; its groups are in reducers_of_groups.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>

#include "tests/support/reducers_on_double.hpp"

using namespace cordee;
using support::law_breaches, support::wrong_on_device;

TEST_CASE("nccl: every exact reducer keeps the laws of reducers, and NCCL's own mean does") {
  CHECK(law_breaches([](nccl link) { return ring{link}; }) == "");
  CHECK(law_breaches([](nccl link) { return tree{link}; }) == "");
  CHECK(law_breaches([](nccl link) { return butterfly{link}; }) == "");
  CHECK(law_breaches([](nccl link) { return halving{link}; }) == "");
  CHECK(law_breaches([](nccl link) { return all_to_all{link}; }) == "");
  CHECK(law_breaches([](nccl link) { return native{link}; }) == "");
}

TEST_CASE("nccl: every exact reducer leaves a GPU's memory with the mean") {
  CHECK(wrong_on_device([](nccl link) { return ring<nccl>{link}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return tree<nccl>{link}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return butterfly<nccl>{link}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return halving<nccl>{link}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return all_to_all<nccl>{link}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return native<nccl>{link}; }) == "");
}
