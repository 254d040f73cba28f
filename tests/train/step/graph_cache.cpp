// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps that are captured and replayed, on an emulated GPU whose streams run as late as they may.
#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace cordee::detail::optim;
using namespace support;

namespace {

constexpr extent image{1, 6, 6};
template <class P>
using net_of =
    network<sequential<convolution<8, 3>, batch_norm<relu>, global_average_pool, linear<4>>, P,
            deferred, reference, image, 4>;
const synthetic images{.extent = image, .classes = 4, .samples = 40, .seed = 3};

struct outcome {
  std::vector<double> losses, learning_rates, scales, norms;
  std::vector<bool> applied;
  std::vector<float> weights;
  std::size_t replays = 0;

  bool operator==(const outcome& other) const {
    return same_bits(losses, other.losses) && same_bits(learning_rates, other.learning_rates) &&
           same_bits(scales, other.scales) && applied == other.applied &&
           same_bits(weights, other.weights);
  }
};

/// Twelve updates with a learning rate that changes in each, and between them an evaluation whose
/// batches are larger, so that buffers grow.
template <class P, class O>
outcome train(const O& optimizer, bool capture_graphs, std::uint64_t seed, int accumulate = 1,
              int samples = 4) {
  const deferred device(seed);
  net_of<P> net{device};
  loader feed{
      images, self_comm{}, {.global_batch = samples * accumulate, .accumulate = accumulate}};
  trainer run{
      net,
      optimizer,
      [](double epoch) { return 0.2 / (1 + epoch); },
      solo{},
      {.capture_graphs = capture_graphs, .loss_scaling = {.initial = 0x1p20, .interval = 3}}};
  CHECK(run.describe_launches().starts_with(capture_graphs ? "as graphs from"
                                                           : "one by one (option"));
  upload<deferred> uploaded(device);
  outcome out;
  for (int k = 0; k < 12; ++k) {
    if (k == 6) (void)run.evaluate(images, {}, 20);
    const auto step = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
    out.losses.push_back(step.train.mean_loss());
    out.learning_rates.push_back(step.info.learning_rate);
    out.scales.push_back(step.loss_scale);
    out.applied.push_back(step.applied);
  }
  out.weights = copy_to_host<float, deferred>(device, run.weights(), run.compute());
  out.replays = device.replays();
  return out;
}

}  // namespace

static_assert(Capturable<lars> && Capturable<adamw> && Capturable<solo> &&
              !Capturable<local_steps<lars>>);

TEST_CASE("graph_cache: replayed steps have the bits of steps that are not captured, in fp32") {
  const auto eager = train<fp32>(adamw{}, false, 0);
  CHECK(eager.replays == 0);
  CHECK(eager.scales[11] == 1);
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const auto replayed = train<fp32>(adamw{}, true, seed);
    CHECK(replayed == eager);
    // One graph a step. Batches use two memories in turn, so the first is replayed in step 2; again
    // so after the evaluation, whose batches made the buffers grow.
    CHECK(replayed.replays == 2 * 4);
  }
}

TEST_CASE("graph_cache: the same in fp16, with skipped steps and a loss scale that changes") {
  const lars optimizer{.trust_coefficient = 0.01};
  const auto eager = train<fp16>(optimizer, false, 0), replayed = train<fp16>(optimizer, true, 3);
  CHECK(replayed == eager);
  CHECK_FALSE(eager.applied[0]);
  CHECK(eager.applied[11]);
  CHECK(eager.scales[1] == 0x1p19);
  CHECK(std::ranges::adjacent_find(eager.scales, std::less{}) != eager.scales.end());
}

TEST_CASE("graph_cache: the last micro-batch's pass is another section than the others'") {
  const lars optimizer{.trust_coefficient = 0.01};
  const auto eager = train<fp16>(optimizer, false, 0, 2),
             replayed = train<fp16>(optimizer, true, 4, 2);
  CHECK(replayed == eager);
  CHECK(replayed.replays == 2 * 4 * 2);  // of each step, the first pass and the rest
}

TEST_CASE("graph_cache: every micro-batch of a step finds its graph, however many there are") {
  constexpr int accumulate = 17;
  const auto replayed = train<fp32>(adamw{}, true, 0, accumulate, 1);
  CHECK(replayed == train<fp32>(adamw{}, false, 0, accumulate, 1));
  CHECK(replayed.replays == 2 * 4 * accumulate);
}

TEST_CASE("graph_cache: passes in which the host takes part are not said to be captured") {
  const deferred device(0);
  net_of<fp16> net{device};
  trainer run{net, lars{}, constant{.learning_rate = 0.1}, solo{}, {.capture_graphs = true}};
  CHECK(run.describe_launches().starts_with("as graphs from"));
  net.share_statistics({.call = [](void*, std::span<double>) {}});
  CHECK(run.describe_launches().starts_with("one by one: the host takes part"));
}

TEST_CASE("graph_cache: the loader runs before the host waits, which it does once a step") {
  for (const bool capture_graphs : {false, true}) {
    const deferred device(0);  // work is done when it is waited for
    net_of<fp16> net{device};
    loader feed{images, self_comm{}, {.global_batch = 4}};
    trainer run{
        net, lars{}, constant{.learning_rate = 0.1}, solo{}, {.capture_graphs = capture_graphs}};
    upload<deferred> uploaded(device);
    auto batches = uploaded.to(feed.next(), run.compute());
    for (int k = 0; k < 6; ++k) {
      const std::size_t left = device.left(), waits = device.waits(), replays = device.replays();
      const std::size_t launches = device.launches();
      std::size_t loads = 0;
      (void)run.step(batches, feed.epoch(k), [&] {
        ++loads;
        batches = uploaded.to(feed.next(), run.compute());
        CHECK(device.waits() == waits);
        CHECK(device.left() > left);
        // Everything of the step has been handed over, down to the packed parameters.
        CHECK(device.replays() - replays == (capture_graphs && k >= 2 ? 1 : 0));
        CHECK(device.launches() - launches > (capture_graphs && k >= 2 ? 0 : 20));
      });
      CHECK(loads == 1);
      CHECK(device.waits() == waits + 1);
    }
  }
}
