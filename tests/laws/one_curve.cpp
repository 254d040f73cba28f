// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of the whole library: the number of ranks does not change the function that is trained. A
// residual network, augmentation, ghost batches that divide every rank's share.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/pad_crop_flip.hpp>
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

// With zero_gamma off all blocks learn within twenty steps; with it residual blocks begin as the
// identity, and rounding errors grow more slowly.
constexpr resnet_options lively{.image = {1, 8, 8}, .ghost_batch = 4, .zero_gamma = false};
constexpr resnet_options calm{.image = {1, 8, 8}, .ghost_batch = 4, .zero_gamma = true};
constexpr resnet_options without_ghosts{.image = {1, 8, 8}, .zero_gamma = false};

constexpr sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-3};

// Mean loss and gradient norm of each step, and the validation loss of each epoch, as recorded.
struct path {
  std::vector<double> steps, epochs;
};

template <class P, resnet_options S, class O>
path curve(int ranks, const O& optimizer, double learning_rate, int epochs, int accumulate = 1) {
  struct recorder {
    path* of;
    void step(const step_record& r) {
      of->steps.push_back(r.train.mean_loss());
      of->steps.push_back(r.grad_norm);
    }
    void epoch(const epoch_record& e) { of->epochs.push_back(e.validation->mean_loss()); }
  };
  path result;
  const synthetic data{.extent = S.image, .classes = 10, .samples = 192, .seed = 3};
  on_ranks(ranks, [&](threads comm) {
    resnet<8, P, cpu, S> net;
    loader feed{data,
                comm,
                {.global_batch = 48, .accumulate = accumulate, .seed = 5},
                pad_crop_flip{.pad = 1, .flip = true},
                normalize::measured(data)};
    trainer run{net,
                optimizer,
                [learning_rate](double) { return learning_rate; },
                ring{comm},
                {.bucket_bytes = 1 << 14}};
    run.fit(feed, epochs, validation{data, 16}, recorder{&result});
    return 0;
  });
  return result;
}

}  // namespace

TEST_CASE("1, 2, 3 and 4 ranks with ghost batches have the same loss curve, in fp64 to 1e-9") {
  const path alone = curve<fp64, lively>(1, momentum_sgd, 0.05, 5);
  REQUIRE(alone.steps.size() == 2 * 20);
  REQUIRE(alone.epochs.size() == 5);
  CHECK(alone.steps[38] < 0.9 * alone.steps[0]);  // it learns
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const path parallel = curve<fp64, lively>(ranks, momentum_sgd, 0.05, 5);
    REQUIRE(parallel.steps.size() == alone.steps.size());
    for (std::size_t k = 0; k < alone.steps.size(); ++k)
      CHECK(close(parallel.steps[k], alone.steps[k], 1e-9));
    for (std::size_t k = 0; k < alone.epochs.size(); ++k)
      CHECK(close(parallel.epochs[k], alone.epochs[k], 1e-9));
  }
}

TEST_CASE("1, 2, 3 and 4 ranks have the same loss curve in fp32 to 1e-3, for sixteen steps") {
  const path alone = curve<fp32, calm>(1, momentum_sgd, 0.05, 4);
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const path parallel = curve<fp32, calm>(ranks, momentum_sgd, 0.05, 4);
    for (std::size_t k = 0; k < 2 * 16; k += 2)  // losses of sixteen steps
      CHECK(close(parallel.steps[k], alone.steps[k], 1e-3));
  }
}

TEST_CASE("accumulated micro-batches have the same loss curve") {
  // Validation losses differ: each micro-batch moves the running statistics once.
  const lars optimizer{.trust_coefficient = 0.02};
  const path whole = curve<fp64, lively>(2, optimizer, 0.5, 4),
             pieces = curve<fp64, lively>(2, optimizer, 0.5, 4, 3);
  REQUIRE(pieces.steps.size() == whole.steps.size());
  for (std::size_t k = 0; k < whole.steps.size(); ++k)
    CHECK(close(pieces.steps[k], whole.steps[k], 1e-9));
}

TEST_CASE("without ghost batches, ranks times micro-batches of a rank decide the loss curve") {
  // The micro-batches, over which batch norm normalizes, are the same six of eight samples.
  const path six = curve<fp64, without_ghosts>(6, momentum_sgd, 0.05, 3);
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const path fewer = curve<fp64, without_ghosts>(ranks, momentum_sgd, 0.05, 3, 6 / ranks);
    REQUIRE(fewer.steps.size() == six.steps.size());
    for (std::size_t k = 0; k < six.steps.size(); ++k)
      CHECK(close(fewer.steps[k], six.steps[k], 1e-9));
  }
  const path larger = curve<fp64, without_ghosts>(3, momentum_sgd, 0.05, 3);
  CHECK_FALSE(close(larger.steps[0], six.steps[0], 1e-3));  // over sixteen samples
}
