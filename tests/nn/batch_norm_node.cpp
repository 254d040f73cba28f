// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a batch norm's node asks of its pass; with what engine cudnn leaves it to do:
// tests/ops/engines/cudnn/fused_places.cpp.
#include <span>
#include <string>
#include <type_traits>

#include <cordee/nn/batch_norm.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::core;
using namespace cordee::detail::nn;

namespace {

constexpr extent image{3, 2, 4};
constexpr batch_norm_options pairs{.ghost_batch = 2};

}  // namespace

TEST_CASE("batch_norm layer: the allreduce is called in forward and backward of training alone") {
  layer_fixture<batch_norm<>, image> fixture(3);
  int calls = 0;
  fixture.batch_norm_allreduce = {[](void* n, std::span<double>) { ++*static_cast<int*>(n); },
                                  &calls};
  fixture.pack_parameters();
  const auto dy = normal_numbers(fixture.forward(phase::evaluate).size(), 9);
  CHECK(calls == 0);
  fixture.forward();
  const int forward = calls;
  CHECK(forward > 0);
  fixture.backward(dy);
  CHECK(calls > forward);
}

TEST_CASE(
    "batch_norm layer: a single value a channel is refused in training, by the layer's name") {
  const auto refusal = []<class L>(std::type_identity<L>, int samples, bool frozen = false,
                                   bool two_ranks = false) {
    layer_fixture<L, extent{3, 1, 1}> fixture(samples);
    fixture.frozen_statistics = frozen;
    fixture.pack_parameters();
    const auto ranks_alike = [](void*, std::span<double> sums) {
      for (double& x : sums) x *= 2;
    };
    if (two_ranks) fixture.batch_norm_allreduce = {ranks_alike, nullptr};
    (void)fixture.forward(phase::evaluate);
    try {
      (void)fixture.forward(phase::train);
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  constexpr std::type_identity<batch_norm<>> whole;
  constexpr std::type_identity<batch_norm<relu, pairs>> by_pairs;
  CHECK(refusal(whole, 1).find("batch norm \"bn1\" takes the variance of 1 value for each of 3") !=
        std::string::npos);
  CHECK(refusal(by_pairs, 3).find("1 pixel is left in a ghost batch of 2") != std::string::npos);
  CHECK(refusal(by_pairs, 4) == "");
  CHECK(refusal(whole, 2) == "");
  CHECK(refusal(whole, 1, true) == "");         // by running statistics
  CHECK(refusal(whole, 1, false, true) == "");  // two values on two ranks
}
