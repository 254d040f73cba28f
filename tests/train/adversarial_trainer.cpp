// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network with adversarial images under the trainer.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

using model = adversarial<resnet<8, fp32, cpu, small>>;

struct outcome {
  double first = 0, last = 0, accuracy = 0;
  std::vector<float> weights;
};
template <class O>
outcome train(threads comm, const O& optimizer, double epochs, adversarial_options options = {}) {
  outcome result;
  struct recorder {
    outcome* result;
    void epoch(const epoch_record& e) {
      if (result->first == 0) result->first = e.train.mean_loss();
      result->last = e.train.mean_loss();
    }
  };
  model net(options);
  loader feed = feed_of(comm);
  trainer run{net, optimizer, steady, ring{comm}, {.seed = 3}};
  CHECK(describe(run, feed, epochs).find("within " + std::to_string(options.epsilon) + " of 255") !=
        std::string::npos);
  run.fit(feed, epochs, recorder{&result});
  result.accuracy = run.evaluate(data, {}).accuracy();
  result.weights.assign(run.weights().begin(), run.weights().end());
  return result;
}

}  // namespace

TEST_CASE("adversarial: 1, 3 and 4 ranks train, and have the same weights") {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const auto by_rank =
        on_ranks(ranks, [](threads comm) { return train(comm, sgd{.momentum = 0.9}, 20); });
    for (const outcome& o : by_rank) {
      const std::size_t trainable = model::segments()[model::tensors()].offset;
      CHECK(std::equal(o.weights.begin(),
                       o.weights.begin() + static_cast<std::ptrdiff_t>(trainable),
                       by_rank[0].weights.begin()));
    }
    CHECK(by_rank[0].last < 0.7 * by_rank[0].first);
    CHECK(by_rank[0].accuracy > 0.6);  // of 4 classes
  }
}

TEST_CASE(
    "adversarial: LARS rates its scales and shifts as any, and a run is repeated to the bit") {
  const auto run = [](threads comm) {
    return train(comm, lars{.trust_coefficient = 0.02}, 2, {.epsilon = 4, .steps = 2});
  };
  const auto once = on_ranks(3, run), again = on_ranks(3, run);
  CHECK(once[0].weights == again[0].weights);
  CHECK(once[0].last < once[0].first);
}

TEST_CASE("adversarial: a resumed run of fresh weights goes on with equal bits") {
  on_ranks(2, [](threads comm) {
    const adversarial_options fresh{.stale = false};
    model net(fresh), other(fresh);
    loader feed = feed_of(comm);
    trainer run{net, sgd{}, steady, ring{comm}, {.seed = 3}};
    trainer second{other, sgd{}, steady, ring{comm}, {.seed = 3}};
    for (int k = 0; k < 3; ++k) run.step(feed.next(), feed.epoch(k));
    std::copy(run.weights().begin(), run.weights().end(), second.weights().begin());
    std::copy(run.slot(0).begin(), run.slot(0).end(), second.slot(0).begin());
    second.restore(run.state());
    const auto micro = feed.next();
    const double loss = run.step(micro, feed.epoch(3)).train.loss;
    CHECK(second.step(micro, feed.epoch(3)).train.loss == loss);
    CHECK(std::equal(run.weights().begin(), run.weights().end(), second.weights().begin()));
    return 0;
  });
}

TEST_CASE("adversarial: after a resume the attack has the weights of now, not the initial ones") {
  model stale, resumed, fresh({.stale = false});
  loader feed = feed_of(self_comm{});
  trainer run{stale, sgd{}, steady, solo{}, {.seed = 3}};
  trainer second{resumed, sgd{}, steady, solo{}, {.seed = 3}};
  trainer third{fresh, sgd{}, steady, solo{}, {.seed = 3}};
  for (int k = 0; k < 3; ++k) run.step(feed.next(), feed.epoch(k));
  const auto copy_to = [&](auto& other) {
    std::copy(run.weights().begin(), run.weights().end(), other.weights().begin());
    other.restore(run.state());
  };
  copy_to(second);
  copy_to(third);
  const auto micro = feed.next();
  run.step(micro, feed.epoch(3));
  second.step(micro, feed.epoch(3));
  third.step(micro, feed.epoch(3));
  const auto copies = [](const model& m) {
    const auto x = m.adversarial_images();
    return std::vector<std::uint8_t>(x.begin(), x.end());
  };
  CHECK(copies(resumed) == copies(fresh));
  CHECK(copies(stale) != copies(fresh));
}
