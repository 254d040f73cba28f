// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant steady{0.05};

struct late_comm : self_comm {
  static constexpr std::size_t bucket_bytes = std::size_t{4} << 20;
  [[nodiscard]] late_comm duplicate(int) const { return {}; }
};
struct over_late_comm : solo {
  using communicator_type = late_comm;
  late_comm comm{};
};

struct halves : fp32 {  // fp16's traits, with fp32 as the type of the model's parameters
  using storage = half;
  static constexpr bool scales_loss = true;
  static constexpr std::string_view name = "halves";
  static constexpr half encode(float x, scaling) { return half::nearest(x); }
  static constexpr float decode(half q, scaling) { return q.exact(); }
};

/// A model with an engine that has a name and rounds weight gradients.
template <class P>
struct with_engine : quadratic<P> {
  struct engine {
    static constexpr std::string_view name = "toy, deterministic";
    static constexpr bool rounds_weight_gradients = true;
  };
};

void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(contains(text, part), part, " in\n", text);
}

}  // namespace

TEST_CASE("describe: states the run's plan and policies, and changes nothing") {
  quadratic<fp32> model;
  trainer run{model, lars{.trust_coefficient = 0.02}, steady, solo{}};
  toy_loader feed{.rank_count = 1, .micro = 3};
  const auto before = numbers(run.weights(), 0);
  const std::string text = describe(run, feed, 2);
  check_contains(text,
                 {"9 parameters in 4 tensors", "fp32 on cpu",
                  "3 samples per update = 1 per micro-batch x 1 ranks x 3",
                  "20 updates, 2 epochs of 30 samples", "lars, trust coefficient 0.02",
                  "0.05 at epoch 0", "the optimizer needs exact, the reducer offers exact",
                  "1,024 bytes in 1 buckets", "20 in a row, or more than 100 of 500, end the run"});
  CHECK(numbers(run.weights(), 0) == before);
  CHECK(run.steps_taken() == 0);
  CHECK(feed.step() == 0);
}

TEST_CASE("describe: a batch that does not divide is not one of the smaller share") {
  struct uneven : toy_loader {
    [[nodiscard]] std::int64_t global_batch() const { return 128; }
  };
  uneven feed;
  feed.micro = 5;
  quadratic<fp32> model;
  trainer run{model, sgd{}, steady, solo{}};
  check_contains(describe(run, feed, 2),
                 {"128 samples per update = 26 per micro-batch x 1 ranks x 5 "
                  "accumulated micro-batches (some have one sample fewer)"});
}

TEST_CASE("describe: says what this rank reads, where the loader says it") {
  struct describing : toy_loader {
    std::string describe_input() const { return "rank 0 of 1 reads all of it"; }
  };
  quadratic<fp32> model;
  trainer run{model, sgd{}, steady, solo{}};
  describing feed{};
  check_contains(describe(run, feed, 1), {"input           rank 0 of 1 reads all of it\n"});
  toy_loader silent;
  CHECK_FALSE(contains(describe(run, silent, 1), "\ninput"));
}

TEST_CASE("describe: states the type of each quantity, and loss scaling") {
  quadratic<halves> model;
  trainer run{model, sgd{}, steady, solo{}, {.loss_scaling = {.initial = 512, .interval = 7}}};
  toy_loader feed;
  check_contains(
      describe(run, feed, 1),
      {"halves on cpu", "packed weights rounded to it, accumulated in single precision",
       "optimizer in fp32", "scaled by 512 at first, times 2 after 7 finite steps in a row"});
}

TEST_CASE("describe: states the engine, and whether it rounds weight gradients") {
  toy_loader feed;
  const auto text_of = [&](auto model) {
    trainer run{model, sgd{}, steady, solo{}};
    return describe(run, feed, 1);
  };
  check_contains(
      text_of(with_engine<halves>{}),
      {"convolutions    engine toy, deterministic\n",
       "optimizer in fp32; weight gradients of convolutions are rounded to halves in between\n"});
  CHECK(!contains(text_of(quadratic<halves>{}), "in between"));
  for (const std::string& text : {text_of(with_engine<fp32>{}), text_of(quadratic<fp32>{})})
    check_contains(text,
                   {"types           activations, weights, gradients, statistics, loss and the "
                    "optimizer in fp32\n"});
}

TEST_CASE("describe: states that only convolutions are in int8") {
  quadratic<int8> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  check_contains(describe(run, feed, 1),
                 {"int8 on cpu", "operands of convolutions in int8, accumulated in 32 bits",
                  "the classifier and everything else in fp32"});
}

TEST_CASE("describe: the device's own description has a line; without one there is none") {
  struct card : cpu {
    static std::string describe() { return "GPU 1 (a card), shared by 2 ranks of this machine"; }
  };
  struct on_card : quadratic<fp32> {
    [[nodiscard]] static card get_device() { return {}; }
  } model;
  toy_loader feed;
  trainer run{model, sgd{}, steady, solo{}};
  check_contains(describe(run, feed, 1),
                 {"\ndevice          GPU 1 (a card), shared by 2 ranks of this machine\n"});
  quadratic<fp32> other;
  trainer on_cpu{other, sgd{}, steady, solo{}};
  CHECK_FALSE(contains(describe(on_cpu, feed, 1), "\ndevice "));
}

TEST_CASE("describe: lists learning rates from the first step to the last") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, [](double epoch) { return 1 + epoch; }, solo{}};
  toy_loader feed;
  // Steps 0, 1, 4, 9, 14, 17 and 19 of twenty.
  check_contains(
      describe(run, feed, 2),
      {"1 at epoch 0, 1.1 at epoch 0.1, 1.4 at epoch 0.4, 1.9 at epoch 0.9, 2.4 at epoch "
       "1.4, 2.7 at epoch 1.7, 2.9 at epoch 1.9\n"});
}

TEST_CASE("describe: counts bytes, buckets and planes") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}, {.bucket_bytes = 1024, .overlap = false}};
  toy_loader feed;
  // Four segments of 64 numbers, two to a bucket; masters, gradients and momentum of 320 numbers.
  check_contains(describe(run, feed, 1),
                 {"2,048 bytes in 2 buckets, the largest of 1,024 bytes, of at most 1,024 by "
                  "bucket_bytes, after backward\n",
                  "7,680 bytes per rank for weights, gradients and optimizer state"});
}

TEST_CASE("describe: marks types without describe(), and a gradient that is not tested") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, [](double) { return 0.05; }, solo{}, {.check_finite = false}};
  toy_loader feed;
  check_contains(describe(run, feed, 1),
                 {"schedule        a schedule of your own, 0.05 at epoch 0\n",
                  "not finite      not tested (check_finite = false)\n",
                  ", of at most 1,048,576 by the device's default, during backward\n"});
}

TEST_CASE("describe: says when buckets travel") {
  quadratic<fp64> model;
  trainer run{model, local_steps{sgd{}, 4}, steady, solo{}};
  toy_loader feed;
  check_contains(describe(run, feed, 1), {", after backward, in the steps that average weights\n"});
}

TEST_CASE("describe: says that the transport decided how long buckets are") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, over_late_comm{}};
  toy_loader feed;
  check_contains(describe(run, feed, 1), {"of at most 4,194,304 by the transport's default"});
}

TEST_CASE("describe: memory of activations, where the model says it") {
  struct sized : quadratic<fp32> {
    [[nodiscard]] std::size_t bytes_per_sample() const { return 1'500; }
  } large;
  toy_loader feed;
  trainer run{large, sgd{}, steady, solo{}};
  const auto samples = static_cast<std::size_t>(detail::train::micro_batch(feed));
  const std::string line =
      concat("activations and their gradients at least 1,500 bytes per sample, ",
             detail::core::grouped(1'500 * samples),
             " for a micro-batch; evaluation by fit takes no more, in batches of ", samples, "\n");
  CHECK(contains(describe(run, feed, 1), line.c_str()));
  for (const bool grow : {false, true}) {  // 4 samples of 7 in two, 11 of 21
    loader staged{toy_data{24},
                  rank_stub{},
                  {.global_batch = 7,
                   .accumulate = 2,
                   .batch_schedule = {{{1, 2}, {2, 3}, {3, 2}}},
                   .grow_micro_batch = grow}};
    CHECK(contains(
        describe(run, staged, 4),
        concat(detail::core::grouped(1'500 * (grow ? 11 : 4)), " for a micro-batch").c_str()));
  }
  quadratic<fp32> other;
  trainer unsaid{other, sgd{}, steady, solo{}};
  CHECK(contains(describe(unsaid, feed, 1), "activations are allocated with the first batch\n"));
}

TEST_CASE("describe: without check_finite, optimizers and precisions that need norms still test") {
  toy_loader feed;
  const trainer_options unchecked{.check_finite = false};
  const auto skips_nonfinite = [&](auto model, auto optimizer) {
    trainer run{model, optimizer, steady, solo{}, unchecked};
    return contains(describe(run, feed, 1),
                    "not finite      a step with a NaN or an infinity is skipped");
  };
  CHECK(skips_nonfinite(quadratic<halves>{}, sgd{}));
  CHECK(skips_nonfinite(quadratic<fp64>{}, lars{}));
  CHECK(skips_nonfinite(quadratic<fp64>{}, local_steps{sgd{}, 2}));
  CHECK_FALSE(skips_nonfinite(quadratic<fp64>{}, sgd{}));
}

TEST_CASE("describe: states what the optimizer needs and what the reducer offers") {
  on_ranks(3, [](threads comm) {
    toy_loader feed{.rank_count = 3};
    quadratic<fp64> one, two;
    trainer mixing{one, decentlam{.momentum = 0}, steady, gossip{comm}};
    check_contains(
        describe(mixing, feed, 1),
        {"ring: spectral gap 1 a round; the optimizer needs mixing, the reducer offers mixing\n"});
    trainer loose{two, local_steps{sgd{}, 4}, steady, ring{comm}};
    check_contains(describe(loose, feed, 1),
                   {"the optimizer needs loose, the reducer offers exact\n",
                    "3 samples per update = 1 per micro-batch x 3 ranks x 1"});
    return 0;
  });
}
