// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/halving_doubling.hpp>
#include <cordee/comm/hierarchical.hpp>
#include <cordee/comm/one_shot.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/simulated.hpp>
#include <cordee/comm/torus_ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/comm/two_shot.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(TransportOn<simulated, cpu> && TransportOn<simulated, phantom>);
static_assert(ReducerOn<ring<simulated>, float, phantom>);

namespace {

const auto launch_fibers = [](int ranks, const auto& f, std::chrono::milliseconds) {
  simulated::launch(ranks, f);
};

}  // namespace

TEST_CASE("simulated: keeps the laws of a transport") {
  CHECK(transport_laws(launch_fibers, {.impatience = std::chrono::milliseconds(0)}) == "");
}

TEST_CASE("simulated: reducers keep their laws over it, with values on the CPU") {
  const auto laws = [](const auto& make) {
    return reducer_laws<simulated>(make, {.ranks = {1, 2, 3, 5, 8, 12}}, launch_fibers);
  };
  CHECK(laws([](auto comm) { return ring{comm}; }) == "");
  CHECK(laws([](auto comm) { return tree{comm}; }) == "");
  CHECK(laws([](auto comm) { return double_tree{comm, 100}; }) == "");
  CHECK(laws([](auto comm) { return butterfly{comm}; }) == "");
  CHECK(laws([](auto comm) { return halving_doubling{comm}; }) == "");
  CHECK(laws([](auto comm) { return one_shot{comm}; }) == "");
  CHECK(laws([](auto comm) { return two_shot{comm}; }) == "");
  CHECK(laws([](auto comm) { return hierarchical{comm, nodes{3}}; }) == "");
  CHECK(laws([](auto comm) { return torus_ring{comm}; }) == "");
  CHECK(laws([](auto comm) { return server{comm}; }) == "");
}

TEST_CASE("simulated: the same with contention") {
  const auto launch = [](int ranks, const auto& f, std::chrono::milliseconds) {
    const link_speed link{.latency = 1e-6, .bandwidth = 1e9};
    simulated::launch(ranks, f, {.contended = fat_tree{link, link, link, 2, 2}});
  };
  CHECK(transport_laws(launch, {.impatience = std::chrono::milliseconds(0)}) == "");
  const auto laws = [&](const auto& make) {
    return reducer_laws<simulated>(make, {.ranks = {1, 2, 5, 8}}, launch);
  };
  CHECK(laws([](auto comm) { return ring{comm}; }) == "");
  CHECK(laws([](auto comm) { return double_tree{comm, 100}; }) == "");
  CHECK(laws([](auto comm) { return halving_doubling{comm}; }) == "");
  CHECK(laws([](auto comm) { return two_shot{comm}; }) == "");
  CHECK(laws([](auto comm) { return server{comm}; }) == "");
}
