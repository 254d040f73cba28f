// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A trainer of every exact reducer's own type, of every compressed one's, and of those that send
// codes or return no mean.
#include "tests/train/combinations.hpp"

#include <cordee/comm/reducers/adasum.hpp>
#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;
using namespace support;

namespace {

constexpr auto make_ring = [](threads comm) { return ring{comm}; };
constexpr auto make_tree = [](threads comm) { return tree{comm}; };
constexpr auto make_butterfly = [](threads comm) { return butterfly{comm}; };
constexpr auto make_halving = [](threads comm) { return halving_doubling{comm}; };
constexpr auto make_hierarchical = [](threads comm) { return hierarchical{comm, nodes{2}}; };
constexpr auto make_torus = [](threads comm) { return torus_ring{comm}; };
constexpr auto make_double_tree = [](threads comm) { return double_tree{comm}; };
constexpr auto make_hybrid = [](threads comm) { return hybrid{tree{comm}, ring{comm}, 64}; };
constexpr auto make_server = [](threads comm) { return server{comm}; };

// A number that is sent is rounded at most three times on each of two steps' ways (2 log2(4) hops
// and the mean), to 11 bits in fp16, 8 in bf16 and a 127th of the largest number in int8; error
// feedback returns what the first step lost. Gradients are as long as the way, and the largest is
// at most that long.
constexpr double rounds = 6, fp16_tolerance = rounds / 2048, bf16_tolerance = rounds / 256,
                 int8_tolerance = rounds * 3 / 254;

template <class P>
constexpr auto compress(const auto& make) {
  return [make](threads comm) { return compressed{make(comm), P{}}; };
}

/// sgd over a reducer whose result is not the mean: all ranks have the same weights, which moved.
/// Their numbers are goldens_reducers.cpp's.
template <class Make>
void check_alike(const char* name, const Make& make) {
  INFO(name);
  const weights_by_rank by_rank = two_steps_on(4, sgd{.momentum = 0.9}, make);
  REQUIRE(by_rank[0].size() == t4_initial_weights().size());
  for (const auto& weights : by_rank) CHECK(weights == by_rank[0]);
  CHECK(by_rank[0] != t4_initial_weights());
}

}  // namespace

TEST_CASE("combinations: sgd over every exact reducer trains to the closed form") {
  check_exact("ring", make_ring);
  check_exact("tree", make_tree);
  check_exact("butterfly", make_butterfly);
  check_exact("halving_doubling", make_halving);
  check_exact("one_shot", [](threads comm) { return one_shot{comm}; });
  check_exact("two_shot", [](threads comm) { return two_shot{comm}; });
  check_exact("hybrid{one_shot, two_shot}", [](threads comm) {
    return hybrid{one_shot{comm}, two_shot{comm}, 64};
  });
  check_exact("native", [](threads comm) { return native{comm}; });
  check_exact("hierarchical", make_hierarchical);
  check_exact("torus_ring", make_torus);
  check_exact("double_tree", make_double_tree);
  check_exact("hybrid", make_hybrid);
  check_exact("server, synchronous", make_server);
  check_exact("gathered{top_k}, every number", [](threads comm) {
    return gathered{comm, top_k{.fraction = 1}};
  });
}

TEST_CASE("combinations: sgd with one rank trains to the closed form") {
  check_moved_to(two_steps(
                     sgd{.momentum = 0.9}, [](self_comm) { return solo{}; }, self_comm{}),
                 heavy_ball(0.9), 1e-15);
}

TEST_CASE("combinations: sgd over every compressed reducer trains to the closed form, rounded") {
  check_exact("compressed{ring, fp16}", compress<fp16>(make_ring), fp16_tolerance);
  check_exact("compressed{tree, fp16}", compress<fp16>(make_tree), fp16_tolerance);
  check_exact("compressed{butterfly, fp16}", compress<fp16>(make_butterfly), fp16_tolerance);
  check_exact("compressed{halving_doubling, fp16}", compress<fp16>(make_halving), fp16_tolerance);
  check_exact("compressed{hierarchical, fp16}", compress<fp16>(make_hierarchical), fp16_tolerance);
  check_exact("compressed{torus_ring, fp16}", compress<fp16>(make_torus), fp16_tolerance);
  check_exact("compressed{double_tree, fp16}", compress<fp16>(make_double_tree), fp16_tolerance);
  check_exact("compressed{hybrid, fp16}", compress<fp16>(make_hybrid), fp16_tolerance);
  check_exact("compressed{server, fp16}", compress<fp16>(make_server), fp16_tolerance);
  check_exact("compressed{ring, bf16}", compress<bf16>(make_ring), bf16_tolerance);
  check_exact("compressed{ring, int8}", compress<int8>(make_ring), int8_tolerance);
}

TEST_CASE("combinations: sgd over adasum and over codes leaves the same weights on all ranks") {
  check_alike("adasum", [](threads comm) { return adasum{comm}; });
  check_alike("gathered{top_k}", [](threads comm) {
    return gathered{comm, top_k{.fraction = 0.5}};
  });
  check_alike("gathered{scaled_sign}", [](threads comm) { return gathered{comm, scaled_sign{}}; });
  check_alike("majority_vote", [](threads comm) { return majority_vote{comm}; });
}
