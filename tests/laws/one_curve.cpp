// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of the whole library: how many ranks share the work does not change the function that is
// trained. A real network, real augmentation, ghost groups that fit every share.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/data/augment.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/normalise.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Blocks that all take part learn within thirty steps; blocks that begin as the identity are
// calmer.
constexpr shape lively{.image = {1, 8, 8}, .group = 4, .zero_gamma = false};
constexpr shape calm{.image = {1, 8, 8}, .group = 4, .zero_gamma = true};

constexpr sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-3};

// Mean loss and gradient norm of each step, and the held-out loss of each epoch, as reported.
struct path {
  std::vector<double> steps, epochs;
};

template <class P, shape S, class O>
path curve(int ranks, const O& rule, double rate, int accumulate = 1) {
  struct ear {
    path* of;
    void step(const step_record& r) {
      of->steps.push_back(r.train.mean_loss());
      of->steps.push_back(r.grad_norm);
    }
    void epoch(const epoch_record& e) { of->epochs.push_back(e.held_out->mean_loss()); }
  };
  path heard;
  const synthetic data{.extent = S.image, .classes = 10, .samples = 192, .seed = 3};
  on_ranks(ranks, [&](threads link) {
    resnet<8, P, cpu, S> net;
    loader feed{data,
                link,
                {.global_batch = 48, .accumulate = accumulate, .seed = 5},
                augment{.pad = 1, .flip = true},
                normalise::measured(data)};
    trainer run{net, rule, [rate](double) { return rate; }, ring{link}, {.bucket_bytes = 1 << 14}};
    run.fit(feed, 8, held_out{data, 16}, ear{&heard});
    return 0;
  });
  return heard;
}

}  // namespace

TEST_CASE("1, 2, 3 and 4 ranks with ghost groups give one loss curve, in double to 1e-9") {
  const path alone = curve<fp64, lively>(1, momentum_sgd, 0.05);
  REQUIRE(alone.steps.size() == 2 * 32);
  REQUIRE(alone.epochs.size() == 8);
  CHECK(alone.steps[62] < 0.9 * alone.steps[0]);  // it learns
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const path together = curve<fp64, lively>(ranks, momentum_sgd, 0.05);
    REQUIRE(together.steps.size() == alone.steps.size());
    for (std::size_t k = 0; k < alone.steps.size(); ++k)
      CHECK(close(together.steps[k], alone.steps[k], 1e-9));
    for (std::size_t k = 0; k < alone.epochs.size(); ++k)
      CHECK(close(together.epochs[k], alone.epochs[k], 1e-9));
  }
}

TEST_CASE("and in single precision to 1e-3, as long as rounding turns no ReLU") {
  const path alone = curve<fp32, calm>(1, momentum_sgd, 0.05);
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const path together = curve<fp32, calm>(ranks, momentum_sgd, 0.05);
    for (std::size_t k = 0; k < 2 * 16; k += 2)  // losses of sixteen steps
      CHECK(close(together.steps[k], alone.steps[k], 1e-3));
  }
}

TEST_CASE("accumulated micro-batches give the same steps") {
  // Held-out losses differ: each micro-batch moves the running statistics once.
  const lars rule{.trust = 0.02};
  const path whole = curve<fp64, lively>(2, rule, 0.5),
             pieces = curve<fp64, lively>(2, rule, 0.5, 3);
  REQUIRE(pieces.steps.size() == whole.steps.size());
  for (std::size_t k = 0; k < whole.steps.size(); ++k)
    CHECK(close(pieces.steps[k], whole.steps[k], 1e-9));
}
