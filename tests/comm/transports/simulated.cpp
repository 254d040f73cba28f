// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(detail::comm::AnySource<simulated>);
static_assert(detail::comm::HasVirtualTime<simulated> && !detail::comm::HasVirtualTime<threads>);
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
  const reducer_law_options options{.ranks = {1, 2, 3, 5, 8, 12}};
  const auto laws = [&](const auto& make) {
    return reducer_violations<simulated>(make, options, launch_fibers);
  };
  // The ring also over a transport without fused add, and in rounds; the others as one type.
  CHECK(reducer_laws<simulated>([](auto comm) { return ring{comm}; }, options, launch_fibers) ==
        "");
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
    const link_parameters link{.latency = 1e-6, .bandwidth = 1e9};
    simulated::launch(ranks, f, {.contended = fat_tree{link, link, link, 2, 2}});
  };
  CHECK(transport_laws(launch, {.impatience = std::chrono::milliseconds(0)}) == "");
  const auto laws = [&](const auto& make) {
    return reducer_violations<simulated>(make, {.ranks = {1, 2, 5, 8}}, launch);
  };
  CHECK(laws([](auto comm) { return ring{comm}; }) == "");
  CHECK(laws([](auto comm) { return double_tree{comm, 100}; }) == "");
  CHECK(laws([](auto comm) { return halving_doubling{comm}; }) == "");
  CHECK(laws([](auto comm) { return two_shot{comm}; }) == "");
  CHECK(laws([](auto comm) { return server{comm}; }) == "");
}

TEST_CASE("simulated: what is thrown and is no std::exception fails the run too") {
  const auto receive = [](const simulated& comm, int from) {
    std::byte b{};
    const recv_op<cpu> in{from, {&b, 1}};
    comm.exchange<cpu>({}, {&in, 1}, cpu::stream{});
  };
  const auto message_of = [](const auto& f) {
    return error_message([&] { simulated::launch(3, f); });
  };
  const std::string expected = "rank 1: threw something that is not a std::exception";
  CHECK(message_of([&](const simulated& comm) {
          if (comm.rank() == 1) throw 1;
          receive(comm, 1);
        }) == expected);
  CHECK(message_of([&](const simulated& comm) {  // beside a fiber that waits
          if (comm.rank() == 1) comm.concurrently([&] { receive(comm, 2); }, [] { throw 1; });
        }) == expected);
}

TEST_CASE("simulated: fibers that wait when the run is given up are unwound") {
  int unwound = 0;
  struct counter {
    int& n;
    ~counter() { ++n; }
  };
  const link_parameters link{.latency = 1e-6, .bandwidth = 1e9};
  const simulated::options o{
      .contended = fat_tree{link, link, link, 2, 2},
      .on_transfer = [](const auto&) { throw error("the observer has seen enough"); }};
  CHECK(error_message([&] {
          simulated::launch(
              2,
              [&](const simulated& comm) {
                const counter c{unwound};
                std::array<std::byte, 2> b{};
                const send_op<cpu> out{1 - comm.rank(), {&b[0], 1}};
                const recv_op<cpu> in{1 - comm.rank(), {&b[1], 1}};
                comm.exchange<cpu>({&out, 1}, {&in, 1}, cpu::stream{});
              },
              o);
        }) == "the observer has seen enough");
  CHECK(unwound == 2);
}

TEST_CASE("simulated: a server's task ends with the run when a rank throws, and is unwound") {
  const auto train = [](int thrower, const simulated::options& network) {
    return error_message([&] {
      simulated::launch(
          3,
          [&](simulated comm) {
            const server<simulated, asynchronous> reducer{comm, asynchronous{}};
            std::vector<float> x(4), y(4);
            const bucket_view<float, cpu, 1> view{nullptr, {x.data(), 4}, {{{y.data(), 4}}}, {}};
            reducer.initialize(view, cpu::stream{});
            for (int k = 0; k < 3; ++k) {
              comm.compute(comm.rank() + 1);
              reducer.mix(view, step_info{}, cpu::stream{});
              if (comm.rank() == thrower && k == 1) throw error("enough");
            }
          },
          network);
    });
  };
  const link_parameters link{.latency = 1e-6, .bandwidth = 1e9};
  for (const bool contended : {false, true}) {
    CAPTURE(contended);
    simulated::options o = contended
                               ? simulated::options{.contended = fat_tree{link, link, link, 2, 2}}
                               : simulated::options{.network = {.link = link}};
    CHECK(train(-1, o) == "");
    CHECK(contains(train(0, o), "enough"));
    CHECK(contains(train(1, o), "enough"));
    int messages = 0;
    o.on_transfer = [&](const auto&) {
      if (++messages == 20) throw error("the observer has seen enough");
    };
    CHECK(contains(train(-1, o), "the observer has seen enough"));
  }
}
