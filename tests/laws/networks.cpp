// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks of the ImageNet family under the whole trainer.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
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

constexpr resnet_options little{.image = {3, 16, 16}, .classes = 4, .stem = stem::small};

struct loss_recorder {
  std::vector<double>* losses;
  void step(const step_record& r) { losses->push_back(r.train.mean_loss()); }
};

}  // namespace

TEST_CASE("ResNet-18 on two ranks learns four patterns, and both ranks hold the same bits") {
  const synthetic data{.extent = {3, 16, 16}, .classes = 4, .samples = 24, .seed = 1};
  std::vector<double> loss;
  const auto by_rank = on_ranks(2, [&](threads comm) {
    resnet<18, fp32, cpu, little> net;
    loader feed{data, comm, {.global_batch = 8, .seed = 1}};
    trainer run{
        net, sgd{.momentum = 0.9}, constant{.learning_rate = 0.02}, ring{comm}, {.seed = 1}};
    run.fit(feed, 4, loss_recorder{&loss});
    // Running statistics, at the tail, differ between ranks.
    const auto w = run.weights().subspan(0, net.segments()[net.tensors()].offset);
    return std::vector<float>(w.begin(), w.end());
  });
  CHECK(by_rank[0] == by_rank[1]);
  REQUIRE(loss.size() == 12);
  // The loss of a uniform guess among four classes is 1.39.
  const auto epoch = [&](std::size_t e) {
    return (loss[3 * e] + loss[3 * e + 1] + loss[3 * e + 2]) / 3;
  };
  INFO("mean losses ", epoch(0), " and ", epoch(3));
  CHECK(epoch(0) > 1);
  CHECK(epoch(3) < epoch(0) / 2);
}
