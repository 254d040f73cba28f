// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps that are recorded and replayed, on a GPU that does its work when it likes.
#include <algorithm>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent image{1, 6, 6};
template <class P>
using net_of =
    network<sequential<convolution<8, 3>, batch_norm<relu>, global_average_pool, linear<4>>, P,
            deferred, reference, image, 4>;
const synthetic images{.extent = image, .classes = 4, .samples = 40, .seed = 3};

struct made {
  std::vector<double> losses, rates, scales, norms;
  std::vector<bool> applied;
  std::vector<float> weights;
  std::size_t replays = 0;

  bool operator==(const made& other) const {  // in every bit; what is no number is none in both
    return losses == other.losses && rates == other.rates && scales == other.scales &&
           applied == other.applied && weights == other.weights;
  }
};

/// Twelve updates at a rate that is never the same, with an evaluation of more samples than a batch
/// has in their midst.
template <class P, class O>
made train(const O& rule, bool replay, std::uint64_t seed, int accumulate = 1) {
  const deferred where(seed);
  net_of<P> net{where};
  loader feed{images, alone{}, {.global_batch = 4 * accumulate, .accumulate = accumulate}};
  trainer run{net,
              rule,
              [](double epoch) { return 0.2 / (1 + epoch); },
              solo{},
              {.replay = replay, .loss_scaling = {.initial = 0x1p20, .interval = 3}}};
  CHECK(run.launches().starts_with(replay ? "recorded when" : "one by one (option"));
  upload<deferred> there(where);
  made out;
  for (int k = 0; k < 12; ++k) {
    if (k == 6) (void)run.evaluate(images, {}, 20);
    const auto step = run.step(there.to(feed.next(), run.compute()), feed.epoch(k));
    out.losses.push_back(step.train.mean_loss());
    out.rates.push_back(step.now.rate);
    out.scales.push_back(step.loss_scale);
    out.applied.push_back(step.applied);
  }
  out.weights = on_host<float, deferred>(where, run.weights(), run.compute());
  out.replays = where.replays();
  return out;
}

}  // namespace

static_assert(Replays<lars> && Replays<adamw> && Replays<solo> && !Replays<local<lars>>);

TEST_CASE(
    "replay: steps that are replayed are to the bit those that are not, in single precision") {
  const auto eager = train<fp32>(adamw{}, false, 0);
  CHECK(eager.replays == 0);
  CHECK(eager.scales[11] == 1);
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const auto replayed = train<fp32>(adamw{}, true, seed);
    CHECK(replayed == eager);
    // Three stretches; accept and settle are met again in step 1, the passes, each in a memory of
    // its own, in steps 2 and 3; and so once more when the evaluation made room.
    CHECK(replayed.replays == 2 * (5 + 5 + 4));
  }
}

TEST_CASE("replay: in half precision too, with steps that are skipped and a scale that moves") {
  const lars rule{.trust = 0.01};
  const auto eager = train<fp16>(rule, false, 0), replayed = train<fp16>(rule, true, 3);
  CHECK(replayed == eager);
  CHECK_FALSE(eager.applied[0]);
  CHECK(eager.applied[11]);
  CHECK(eager.scales[1] == 0x1p19);
  CHECK(std::ranges::adjacent_find(eager.scales, std::less{}) != eager.scales.end());
}

TEST_CASE(
    "replay: micro-batches are passes of their own, the last of which makes gradients whole") {
  const lars rule{.trust = 0.01};
  const auto eager = train<fp16>(rule, false, 0, 2), replayed = train<fp16>(rule, true, 4, 2);
  CHECK(replayed == eager);
  CHECK(replayed.replays > 20);
}
