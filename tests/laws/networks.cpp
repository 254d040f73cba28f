// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks of the ImageNet family under the whole trainer.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr shape little{.image = {3, 16, 16}, .classes = 4, .stem = stem::small};

struct losses {
  std::vector<double>* all;
  void step(const step_record& r) { all->push_back(r.train.mean_loss()); }
};

}  // namespace

TEST_CASE("ResNet-18 on two ranks learns four patterns, and both ranks hold the same bits") {
  const synthetic data{.extent = {3, 16, 16}, .classes = 4, .samples = 24, .seed = 1};
  std::vector<double> loss;
  const auto by_rank = on_ranks(2, [&](threads link) {
    resnet<18, fp32, cpu, little> net;
    loader feed{data, link, {.global_batch = 8, .seed = 1}};
    trainer run{net, sgd{.momentum = 0.9}, constant{.rate = 0.02}, ring{link}, {.seed = 1}};
    run.fit(feed, 4, losses{&loss});
    // Behind what trains stand running statistics, which are a rank's own.
    const auto w = run.weights().subspan(0, net.segments()[net.tensors()].offset);
    return std::vector<float>(w.begin(), w.end());
  });
  CHECK(by_rank[0] == by_rank[1]);
  REQUIRE(loss.size() == 12);
  // Guessing among four costs 1.39.
  const auto epoch = [&](std::size_t e) {
    return (loss[3 * e] + loss[3 * e + 1] + loss[3 * e + 2]) / 3;
  };
  INFO("mean losses ", epoch(0), " and ", epoch(3));
  CHECK(epoch(0) > 1);
  CHECK(epoch(3) < epoch(0) / 2);
}
