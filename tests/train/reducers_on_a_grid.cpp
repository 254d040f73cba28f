// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers between ranks on one GPU, and steps that are skipped there: emulated, work done at once
// or as late as can be.
#include <doctest/doctest.h>

#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"
#include "tests/train/reducers_on.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("on a grid every exact reducer leaves the same bits on all ranks, and the CPU's mean") {
  trains_alike(emulated(1), [](threads link) { return ring{link}; });
  trains_alike(emulated(2), [](threads link) { return tree{link}; });
  trains_alike(emulated(3), [](threads link) { return butterfly{link}; });
  trains_alike(emulated(4), [](threads link) { return halving{link}; });
  trains_alike(emulated(5), [](threads link) { return native{link}; });
}

TEST_CASE("on a grid decentlam mixes with its neighbours as on the CPU") {
  mixes_alike(emulated(1), [](threads link) { return gossip{link}; });
}

TEST_CASE(
    "a step that is not finite is skipped on a grid as on the CPU, known to the host or not") {
  skip_alike(emulated(1));
  for (const std::uint64_t seed : {0u, 1u, 2u}) skip_alike(deferred(seed));
}

TEST_CASE(
    "streams that do their work when they like train to the bits of those that do it at once") {
  const auto run = [](const auto& where, const auto& rule, const auto& reducer) {
    return weights_after(where, 2, rule, reducer);
  };
  const auto natively = [](threads link) { return native{link}; };
  const auto neighbours = [](threads link) { return gossip{link}; };
  const lars rule{.trust = 0.02};
  const decentlam other{.momentum = 0.5};
  const auto means = run(emulated(1), rule, natively),
             mixtures = run(emulated(1), other, neighbours);
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    CHECK(run(deferred(seed), rule, natively) == means);
    CHECK(run(deferred(seed), other, neighbours) == mixtures);
  }
}

TEST_CASE("the host goes on before a step is made, and while it fetches the next batch") {
  const deferred device;
  tiny<deferred> net{device};
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  loader feed{images, alone{}, {.global_batch = 6, .seed = 1}};
  trainer run{net, lars{.trust = 0.02}, constant{.rate = 0.05}, solo{}};
  upload<deferred> there(device);
  auto coming = there.to(feed.next(), run.compute());
  for (int k = 0; k < 3; ++k) {
    std::size_t meanwhile = 0;
    const auto out = run.step(coming, feed.epoch(k), [&] {
      meanwhile = device.left();
      coming = there.to(feed.next(), run.compute());
    });
    CHECK(out.applied);
    CHECK(meanwhile > 10);     // backward, the norms, the rule: nobody has waited for them
    CHECK(device.left() > 0);  // nor for the rule when the step's outcome is known
  }
}

TEST_CASE("fit fetches the next batch beside a step, and trains as by hand") {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  const auto trained = [&](const auto& where, bool by_hand) {
    using D = std::remove_cvref_t<decltype(where)>;
    tiny<D> net{where};
    loader feed{images, alone{}, {.global_batch = 6, .accumulate = 2, .seed = 1}};
    trainer run{net, sgd{}, constant{.rate = 0.05}, solo{}};
    upload<D> there(where);
    if (by_hand)
      for (int k = 0; k < feed.steps(1.5); ++k)
        run.step(there.to(feed.next(), run.compute()), feed.epoch(k));
    else
      CHECK(run.fit(feed, 1.5, held_out{images, 7}).steps == feed.steps(1.5));
    CHECK(feed.step() == feed.steps(1.5));
    return on_host<float, D>(where, run.weights(), run.compute());
  };
  const auto expected = trained(emulated(1), true);
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u})
    CHECK(trained(deferred(seed), false) == expected);
}
