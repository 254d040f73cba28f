// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Trainers of gossip's own type over every topology, and of the asynchronous server's.
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/train/combinations.hpp"

using namespace cordee;
using namespace support;

namespace {

// Momentum that is stable on each of them.
constexpr double beta = 0.3;

template <class G>
void check_topology(const char* name, const G& topology) {
  check_mean(name, decentlam{.momentum = beta}, beta, [&](threads comm) {
    return gossip{comm, topology};
  });
}

}  // namespace

TEST_CASE("combinations: decentlam over gossip on every topology keeps the mean's closed form") {
  check_topology("ring", topologies::ring{});
  check_topology("torus2d", topologies::torus2d{});
  check_topology("mesh2d", topologies::mesh2d{});
  check_topology("star", topologies::star{});
  check_topology("complete", topologies::complete{});
  check_topology("hypercube", topologies::hypercube{});
  check_topology("symmetric_exponential", topologies::symmetric_exponential{});
  check_topology("exponential", topologies::exponential{});
  check_topology("lazy{exponential}", topologies::lazy{topologies::exponential{}, 0.09});
  check_topology("one_peer", topologies::one_peer{});
  check_topology("xor_matching", topologies::xor_matching{});
  check_topology("odd_even", topologies::odd_even{});
  check_topology("random_matching", topologies::random_matching{});
  check_topology("lazy{random_matching}", topologies::lazy{topologies::random_matching{}, 0.5});
  check_topology("adjacency::metropolis",
                 topologies::adjacency::metropolis({{1}, {0, 2}, {1, 3}, {2}}));
  check_topology("adjacency::weighted",
                 topologies::adjacency::weighted(
                     {{.5, 0, 0, .5}, {.5, .5, 0, 0}, {0, .5, .5, 0}, {0, 0, .5, .5}}));
}

TEST_CASE("combinations: local_steps over gossip and over a server in lockstep keep the mean") {
  const local_steps every_step{sgd{.momentum = beta}, 1};
  check_mean("gossip", every_step, beta, [](threads comm) { return gossip{comm}; });
  check_mean("server, asynchronous", every_step, beta, [](threads comm) {
    return server{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
  });
}
