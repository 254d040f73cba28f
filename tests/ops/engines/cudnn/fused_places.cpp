// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm fused into convolutions under the trainer, over a double of cuDNN that computes every
// graph in plain loops; and how places choose.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/fused_run.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr resnet_options small{.image = {1, 8, 8}, .shortcut = shortcut::b, .zero_gamma = false};

template <class Engine, class P = fp16, resnet_options Options = small, int Depth = 8,
          class Prepare>
fused_run train(int steps, int accumulate, const Prepare& prepare) {
  return train_fused<resnet<Depth, P, host_cuda, Options, Engine>>(
      {.steps = steps, .accumulate = accumulate}, prepare);
}
template <class Engine, class P = fp16, resnet_options Options = small, int Depth = 8>
fused_run train(int steps = 1, int accumulate = 1) {
  return train<Engine, P, Options, Depth>(steps, accumulate, [](auto&) {});
}

}  // namespace

TEST_CASE("cudnn: a step with fused batch norms is as near to fp32 as one with plain ones") {
  begin_double();
  const fused_run exact = train<plain_cudnn, fp32>(), plain = train<plain_cudnn>(),
                  fused = train<fusing_cudnn>();
  CHECK(plain.fused == 0);
  // Statistics behind six convolutions; of three blocks the second convolution's three passes; an
  // input gradient at the end of a block that no empty repeat follows.
  CHECK(train<fusing_cudnn>(2).fused == 6 + 3 * 3 + 1);
  CHECK(distance(fused.gradients, exact.gradients) <=
        1.5 * distance(plain.gradients, exact.gradients));
  CHECK(distance(fused.weights, exact.weights) <= 1.5 * distance(plain.weights, exact.weights));
  CHECK(distance(fused.gradients, plain.gradients) > 0);
  CHECK(fusing_cudnn::describe() == "batch norm fused at 19 of 19 places; 19 fused by time");
}

TEST_CASE("cudnn: the ends of residual blocks, with identities and projections") {
  begin_double();
  const fused_run exact = train<plain_cudnn, fp32, small, 14>(2, 2),
                  plain = train<plain_cudnn, fp16, small, 14>(2, 2),
                  fused = train<fusing_cudnn, fp16, small, 14>(2, 2);
  CHECK(distance(fused.gradients, exact.gradients) <=
        1.5 * distance(plain.gradients, exact.gradients));
  CHECK(distance(fused.weights, exact.weights) <= 1.5 * distance(plain.weights, exact.weights));
  // Of six blocks the second convolutions as above; five first convolutions read a sum and sum a
  // gradient: behind three identities and two projections.
  CHECK(fused.fused == 2 * (9 + 6 * 3 + 5));
  for (const std::string name : {"bn_add_relu_conv_stats 16x8x8", "dual_bn_relu_conv_stats 64x2x2",
                                 "dgrad_add_relu_bn 16x8x8", "dgrad_dual_relu_bn 64x2x2"})
    CHECK(fusing_cudnn::choices().find(name) != std::string::npos);
}

TEST_CASE("cudnn: each kind of place may be fused alone") {
  begin_double();
  const fused_run exact = train<plain_cudnn, fp32>(3, 2), plain = train<plain_cudnn>(3, 2);
  const double bar = 1.5 * distance(plain.gradients, exact.gradients);
  begin_double();
  (void)train<fusing_cudnn>();
  const std::string all = fusing_cudnn::choices();
  for (const std::string kind :
       {"conv_stats", "bn_relu_conv_stats", "bn_relu_wgrad", "dgrad_relu_bn"}) {
    CAPTURE(kind);
    std::string table;
    for (std::size_t from = 0; from < all.size();) {
      const std::size_t end = all.find('\n', from);
      const std::string line = all.substr(from, end - from);
      table += line.substr(0, line.find(" fused ")) +
               (line.starts_with(kind + " ") ? " fused 0\n" : " plain\n");
      from = end + 1;
    }
    begin_double();
    fusing_cudnn::use_choices(table);
    const fused_run one = train<fusing_cudnn>(3, 2);
    // A plain forward pass has stored what the weight gradient reads.
    CHECK(one.fused == 2 * (kind == "conv_stats" ? 9 : kind == "bn_relu_wgrad" ? 0 : 3));
    CHECK(distance(one.gradients, exact.gradients) <= bar);
    CHECK(fusing_cudnn::choices() == table);
  }
}

TEST_CASE("cudnn: places that are plain have the bits of the engine that does not fuse") {
  begin_double();
  const fused_run plain = train<plain_cudnn>(3, 2);
  const auto check_plain = [&](const std::string& why) {
    const fused_run same = train<fusing_cudnn>(3, 2);
    CHECK(same.fused == 0);
    CHECK(same.weights == plain.weights);
    CHECK(same.gradients == plain.gradients);
    CHECK(fusing_cudnn::describe() == "batch norm fused at 0 of 16 places; 16 plain " + why);
  };
  SUBCASE("by time") {
    host_cudnn slow;
    slow.fused_factor = 3;
    begin_double(slow);
    check_plain("by time");
  }
  SUBCASE("without a plan") {
    host_cudnn none;
    none.engines[0].fuses = false;
    begin_double(none);
    check_plain("since cuDNN has no plan for it on this GPU");
    CHECK(fusing_cudnn::choices().empty());
  }
  SUBCASE("without a plan that runs") {
    host_cudnn broken;
    broken.engines = {host_engine{.index = 1, .fuses = false},
                      host_engine{.index = 2, .executes = false}};
    begin_double(broken);
    check_plain("by time");
  }
}

TEST_CASE("cudnn: the fastest plan is in the table, which repeats the choices and times nothing") {
  host_cudnn three;
  three.engines = {host_engine{.index = 1, .milliseconds = 2}, host_engine{.index = 2},
                   host_engine{.index = 3, .milliseconds = 3}};
  begin_double(three);
  const fused_run first = train<fusing_cudnn>(2);
  const std::string table = fusing_cudnn::choices();
  CHECK(
      table.find("dgrad_relu_bn 16x8x8 16 window 3 stride 1 padding 1 samples 6 fp16 fused 1\n") !=
      std::string::npos);
  begin_double(three);
  fusing_cudnn::use_choices(table);
  CHECK(fusing_cudnn::describe() ==
        "batch norm is fused where it is faster, decided at the first step and by a table");
  CHECK(train<fusing_cudnn>(2).weights == first.weights);
  CHECK(fusing_cudnn::choices() == table);
  CHECK(fusing_cudnn::describe() == "batch norm fused at 16 of 16 places; 16 fused by the table");
  // Two of the 17 are of statistics behind plain forms of forward, which were timed then.
  const auto run = std::count(host_state().executed.begin(), host_state().executed.end(), 2);
  CHECK(run >= 2 * first.fused);
  CHECK_NOTHROW(fusing_cudnn::use_choices(table));
  CHECK_THROWS_WITH_AS(fusing_cudnn::use_choices(
                           "conv_stats 8x8x8 16 window 3 stride 1 padding 1 samples 6 fp16 plain"),
                       doctest::Contains("comes after the first step"), usage_error);
  for (const std::string line :
       {"fused 1", "plain", "conv_stats 8x8x8 16 fused", "x fused -1", "x fused 1 ", "x fast"}) {
    CAPTURE(line);
    CHECK_THROWS_WITH_AS(fusing_cudnn::use_choices("\n" + line),
                         doctest::Contains("line 2 of a table of fused places"), usage_error);
  }
  host_cudnn one;
  begin_double(one);
  fusing_cudnn::use_choices(table);  // of a GPU with more plans
  CHECK_THROWS_WITH_AS((void)train<fusing_cudnn>(),
                       doctest::Contains("names plan 1, and cuDNN has 1 here"), error);
}

TEST_CASE("cudnn: a deterministic engine fuses by rule, and by reproducible plans alone") {
  host_cudnn two;
  two.engines = {host_engine{.index = 1, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
                 host_engine{.index = 2}, host_engine{.index = 3}};
  begin_double(two);
  const fused_run first = train<fixed_cudnn>(2);
  CHECK(first.fused == 6 + 3 * 2 + 1);
  CHECK(host_state().executed ==
        std::vector<int>(host_state().executed.size(), 2));  // nothing is timed
  CHECK(fixed_cudnn::describe() ==
        "batch norm fused at 13 of 16 places; 13 fused by rule, in a deterministic build; 3 plain "
        "by rule, in a deterministic build");
  begin_double(two);
  CHECK(train<fixed_cudnn>(2).weights == first.weights);
}

TEST_CASE("cudnn: where batch norms cannot be fused they are plain, and describe says so") {
  const auto check_as_plain = [&]<resnet_options Options>(const auto& prepare, int fused,
                                                          const std::string& why) {
    begin_double();
    const fused_run plain = train<plain_cudnn, fp16, Options>(2, 1, prepare);
    begin_double();
    const fused_run same = train<fusing_cudnn, fp16, Options>(2, 1, prepare);
    CHECK(same.fused == fused);
    if (fused == 0) CHECK(same.weights == plain.weights);
    CAPTURE(fusing_cudnn::describe());
    CHECK(fusing_cudnn::describe().ends_with(why));
  };
  SUBCASE("frozen statistics") {
    check_as_plain.operator()<small>([](auto& net) { net.freeze_batch_norm_at = 0; }, 0,
                                     "at the first step; plain where statistics are frozen");
  }
  SUBCASE("ghost batches") {
    constexpr resnet_options ghosts = [] {
      auto o = small;
      o.ghost_batch = 2;
      return o;
    }();
    check_as_plain.operator()<ghosts>([](auto&) {}, 0, "at the first step; plain in ghost batches");
  }
  SUBCASE("recomputed blocks") {
    constexpr resnet_options recomputed = [] {
      auto o = small;
      o.recompute = true;
      return o;
    }();
    check_as_plain.operator()<recomputed>([](auto&) {}, 1,  // the stem's statistics
                                          "1 fused by time; plain in recomputed or offloaded "
                                          "blocks");
  }
  SUBCASE("weights by block: the ends of blocks, whose weights are gone in backward") {
    constexpr resnet_options by_block = [] {
      auto o = small;
      o.offload_weights = true;
      return o;
    }();
    check_as_plain.operator()<by_block>([](auto&) {}, 6 + 3 * 3, "fused by time");
    CHECK(fusing_cudnn::choices().find("_add_") == std::string::npos);
    const fused_run same = train<fusing_cudnn, fp16, by_block>(2), plain = train<plain_cudnn>(2);
    CHECK(distance(same.weights, plain.weights) < 1e-2);
  }
  SUBCASE("shared statistics: forward may be fused") {
    check_as_plain.operator()<small>(
        [](auto& net) {
          net.batch_norm_allreduce =
              detail::ops::statistics_allreduce{.call = [](void*, std::span<double>) {}};
        },
        3 + 3 + 1, "7 fused by time; plain in backward where ranks share statistics");
  }
}
