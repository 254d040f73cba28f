// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto steady = [](double) { return 0.05; };

struct halves : fp32 {  // what fp16 says of itself, on numbers that the toy can read
  using storage = half;
  static constexpr bool scales_loss = true;
  static constexpr std::string_view name = "halves";
  static constexpr half encode(float x, scaling) { return half::nearest(x); }
  static constexpr float decode(half q, scaling) { return q.exact(); }
};

/// A network that names its engine, which is set, and rounds.
template <class P>
struct by_engine : quadratic<P> {
  struct engine {
    static constexpr std::string_view name = "toy, deterministic";
    static constexpr bool rounds_weight_gradients = true;
  };
};

void check_says(const std::string& said, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(contains(said, part), part, " in\n", said);
}

}  // namespace

TEST_CASE("describe says what would happen and trains nothing") {
  quadratic<fp32> model;
  trainer run{model, lars{.trust = 0.02}, steady, solo{}};
  toy_feed feed{.ranks_count = 1, .micro = 3};
  const auto before = numbers(run.weights(), 0);
  const std::string said = describe(run, feed, 2);
  check_says(said, {"9 parameters in 4 tensors", "fp32 on cpu",
                    "3 samples an update = 1 per rank x 1 ranks x 3",
                    "20 updates, 2 epochs of 30 samples", "lars, trust 0.02", "0.05 at epoch 0",
                    "the optimizer needs exact, the reducer offers exact",
                    "1,024 bytes in 1 buckets", "20 in a row end the run"});
  CHECK(numbers(run.weights(), 0) == before);
  CHECK(run.steps_taken() == 0);
  CHECK(feed.step() == 0);
}

TEST_CASE("describe says what is kept in which type, and how a loss is scaled") {
  quadratic<halves> model;
  trainer run{model, sgd{}, steady, solo{}, {.loss_scaling = {.initial = 512, .interval = 7}}};
  toy_feed feed;
  check_says(describe(run, feed, 1),
             {"halves on cpu", "packed weights in halves, their sums in single precision",
              "rule in fp32", "scaled by 512 at first, times 2 after 7 finite steps in a row"});
}

TEST_CASE("describe says how the engine is set, and what it rounds on its way to the arena") {
  toy_feed feed;
  const auto said = [&](auto model) {
    trainer run{model, sgd{}, steady, solo{}};
    return describe(run, feed, 1);
  };
  check_says(
      said(by_engine<halves>{}),
      {"convolutions    engine toy, deterministic\n",
       "rule in fp32; weight gradients of convolutions are rounded to halves on their way\n"});
  CHECK(!contains(said(quadratic<halves>{}), "on their way"));
  for (const std::string& wide : {said(by_engine<fp32>{}), said(quadratic<fp32>{})})
    check_says(wide, {"types           activations, weights, gradients, statistics, loss and the "
                      "rule in fp32\n"});
}

TEST_CASE("describe says that int8 is of convolutions alone") {
  quadratic<int8> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_feed feed;
  check_says(describe(run, feed, 1),
             {"int8 on cpu", "operands of convolutions in int8, summed in 32 bits",
              "the classifier and all else in fp32"});
}

TEST_CASE("describe gives the rates from the first step to the last") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, [](double epoch) { return 1 + epoch; }, solo{}};
  toy_feed feed;
  // Steps 0, 1, 4, 9, 14, 17 and 19 of twenty.
  check_says(describe(run, feed, 2),
             {"1 at epoch 0, 1.1 at epoch 0.1, 1.4 at epoch 0.4, 1.9 at epoch 0.9, 2.4 at epoch "
              "1.4, 2.7 at epoch 1.7, 2.9 at epoch 1.9\n"});
}

TEST_CASE("describe counts bytes, buckets and planes as they are") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}, {.bucket_bytes = 1024, .overlap = false}};
  toy_feed feed;
  // Four segments of 64 numbers, two to a bucket; masters, gradients and momentum of 320 numbers.
  check_says(describe(run, feed, 1), {"2,048 bytes in 2 buckets, the largest of 1,024 bytes, after "
                                      "backward\n",
                                      "7,680 bytes a rank for weights, gradients and state"});
}

TEST_CASE("describe names nouns it does not know so, and a run that does not look") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}, {.guarded = false}};
  toy_feed feed;
  check_says(describe(run, feed, 1),
             {"schedule        a noun of your own\n",
              "not finite      not looked for (unguarded)\n", ", while backward runs\n"});
}

TEST_CASE("describe says of an unguarded run that it looks, where rule or precision does anyway") {
  toy_feed feed;
  const trainer_options unguarded{.guarded = false};
  const auto looks = [&](auto model, auto rule) {
    trainer run{model, rule, steady, solo{}, unguarded};
    return contains(describe(run, feed, 1), "not finite      such a step is not taken");
  };
  CHECK(looks(quadratic<halves>{}, sgd{}));
  CHECK(looks(quadratic<fp64>{}, lars{}));
  CHECK(looks(quadratic<fp64>{}, local{sgd{}, 2}));
  CHECK_FALSE(looks(quadratic<fp64>{}, sgd{}));
}

TEST_CASE("describe says what the rule needs and what the reducer offers") {
  on_ranks(3, [](threads link) {
    toy_feed feed{.ranks_count = 3};
    quadratic<fp64> one, two;
    trainer mixing{one, decentlam{.momentum = 0}, steady, gossip{link}};
    check_says(
        describe(mixing, feed, 1),
        {"cycle: spectral gap 1 a round; the optimizer needs mixing, the reducer offers mixing\n"});
    trainer loose{two, local{sgd{}, 4}, steady, ring{link}};
    check_says(describe(loose, feed, 1), {"the optimizer needs loose, the reducer offers exact\n",
                                          "3 samples an update = 1 per rank x 3 ranks x 1"});
    return 0;
  });
}
