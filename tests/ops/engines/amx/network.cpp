// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A step of ResNet-20 on tiles, whose second and third stages have blocks of 32 channels, beside
// one by engine `direct`.
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/amx/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

/// The loss, and the norm of the change of weights: the learning rate times the gradient's.
struct measured {
  double loss, norm;
};

template <class Engine>
measured first_step() {
  static constexpr resnet_options options{.image = {3, 8, 8}, .zero_gamma = false};
  resnet<20, bf16, cpu, options, Engine> net{cpu(2)};
  const synthetic data{.extent = options.image, .classes = 10, .samples = 8, .seed = 3};
  loader feed{data, self_comm{}, {.global_batch = 8, .seed = 5}};
  trainer run{net, sgd{}, constant{.learning_rate = 1}, solo{}};
  const auto weights = [&] {
    const auto w = run.weights().subspan(0, net.segments()[net.tensors()].offset);
    return std::vector<double>(w.begin(), w.end());
  };
  const auto before = weights();
  const double loss = run.step(feed.next(), 0).train.mean_loss();
  const auto after = weights();
  double squares = 0;
  for (std::size_t i = 0; i < after.size(); ++i)
    squares += (after[i] - before[i]) * (after[i] - before[i]);
  return {loss, std::sqrt(squares)};
}

}  // namespace

TEST_CASE("amx: a step of ResNet-20 has engine direct's loss and gradient, within roundings") {
  const measured tiles = first_step<amx_with<tile_model>>(), expected = first_step<direct>();
  REQUIRE(std::isfinite(expected.loss));
  // Each of 20 layers rounds its weights, output and normalized output to 2^-8, in both runs, and a
  // tenth of the loss at most is the logits'. The norm is an average over more numbers than the
  // gradient of a layer, which tests/laws/half_precision.cpp bounds.
  constexpr double roundings = 2 * std::sqrt(3.0 * 20) * 0x1p-8;
  CHECK(std::abs(tiles.loss / expected.loss - 1) < roundings);
  CHECK(std::abs(tiles.norm / expected.norm - 1) < 2 * roundings);
  CHECK(tiles.norm != expected.norm);  // sums are made in another order
}
