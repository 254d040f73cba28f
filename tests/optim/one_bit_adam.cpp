// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/checks/pairing.hpp>

#include "tests/support/ranks.hpp"
#include "tests/train/goldens_mixing.hpp"

using namespace cordee;
using namespace support;
using detail::train::Compatible;

static_assert(OptimizerOn<one_bit_adam, float, cpu> && one_bit_adam::slots == 2);
static_assert(!Compatible<one_bit_adam, sharded<ring<threads>>>);

namespace {

const by_ranks of_one_bit_adam{
    {{0.367325594711, -0.13528820084, 0.618943727717, -0.073263044686, 0.132594372711,
      0.0267510105815, 0.826429434801, -1.81993933376, -0.0156466942561}},
    {{0.392132511965, -0.138004201258, 0.647219994999, -0.0691970602974, 0.14079469304,
      0.0439687738329, 0.827168844924, -1.81907012914, -0.0156466942561},
     {0.392132511965, -0.138004201258, 0.647219994999, -0.0691970602974, 0.14079469304,
      0.0439687738329, 0.827168844924, -1.81907012914, -0.0156466942561},
     {0.392132511965, -0.138004201258, 0.647219994999, -0.0691970602974, 0.14079469304,
      0.0439687738329, 0.827168844924, -1.81907012914, -0.0156466942561}},
    {{0.390563393687, -0.125663665949, 0.646813885211, -0.0698433368029, 0.141860739063,
      0.0431645879668, 0.834121113636, -1.82704301004, -0.0156466942561},
     {0.390563393687, -0.125663665949, 0.646813885211, -0.0698433368029, 0.141860739063,
      0.0431645879668, 0.834121113636, -1.82704301004, -0.0156466942561},
     {0.390563393687, -0.125663665949, 0.646813885211, -0.0698433368029, 0.141860739063,
      0.0431645879668, 0.834121113636, -1.82704301004, -0.0156466942561},
     {0.390563393687, -0.125663665949, 0.646813885211, -0.0698433368029, 0.141860739063,
      0.0431645879668, 0.834121113636, -1.82704301004, -0.0156466942561}}};

constexpr auto in_stages(double start_epoch) {
  return [start_epoch](threads comm) {
    return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, start_epoch};
  };
}

template <class O>
std::string refusal(const O& optimizer) {
  return error_message([&] { optimizer.check(); });
}

}  // namespace

TEST_CASE("one_bit_adam, three exact steps and four of signs of momenta, on 1, 3 and 4 ranks") {
  reaches<fp64>(one_bit_adam{.weight_decay = 0.01, .start_epoch = 3},
                {0.01, 0.01, 0.01, 0.002, 0.002, 0.002, 0.002}, of_one_bit_adam, in_stages(3));
}

TEST_CASE("one_bit_adam obeys the optimizer laws in both stages") {
  CHECK(optimizer_laws(one_bit_adam{.weight_decay = 0.1, .start_epoch = 1000}) == "");
  CHECK(optimizer_laws(one_bit_adam{.weight_decay = 0.1, .start_epoch = 2}) == "");
}

TEST_CASE("one_bit_adam over an exact mean of momenta is that over gradients, with v constant") {
  // The mean of beta1 m + (1 - beta1) g_i is beta1 m + (1 - beta1) g: a step of roundings apart.
  const std::vector<double> rates{0.01, 0.01, 0.01, 0.01, 0.01};
  const one_bit_adam optimizer{.start_epoch = 2};
  const auto one = trained<fp64>(1, optimizer, rates, over_mean),
             four = trained<fp64>(4, optimizer, rates, over_mean);
  for (std::size_t i = 0; i < one[0].size(); ++i) CHECK(close(four[0][i], one[0][i], 1e-13));
}

TEST_CASE("one_bit_adam: where no gradient has ever been, the weights stay") {
  // W2's gradient is zero: it starts at its center on all ranks, while the others move.
  const auto weights = on_ranks(3, [](threads comm) {
    quadratic<fp64> model{};
    trainer run{model, one_bit_adam{.start_epoch = 2}, [](double) { return 0.01; },
                in_stages(2)(comm)};
    const segment& t = t4_table[2];
    for (std::size_t i = 0; i < t.size; ++i) run.weights()[t.offset + i] = t4_center[2][i];
    run.adopt_weights();
    for (int k = 0; k < 6; ++k) run.step(std::array{one_each(3)}, k);
    return std::pair(numbers(run.weights(), 0), numbers(run.weights(), 2));
  });
  for (const auto& [moving, still] : weights) {
    CHECK(still == std::vector<double>(t4_center[2].begin(), t4_center[2].begin() + 2));
    for (std::size_t i = 0; i < 4; ++i) CHECK(moving[i] != t4_start[0][i]);
  }
}

TEST_CASE("one_bit_adam: the stages of optimizer and reducer begin in the same epoch") {
  const auto message = [](const auto& optimizer, double start_epoch) {
    return error_message([&] {
      on_ranks(2, [&](threads comm) {
        quadratic<fp64> model{};
        trainer run{model, optimizer, [](double) { return 0.01; }, in_stages(start_epoch)(comm)};
        return 0;
      });
    });
  };
  CHECK(message(one_bit_adam{.start_epoch = 2}, 2) == "");
  CHECK(contains(message(one_bit_adam{.start_epoch = 2}, 3),
                 "the optimizer's start_epoch must be that of the reducer's two_stage"));
  CHECK(contains(message(clip{one_bit_adam{.start_epoch = 2}}, 3), "must be that of"));
  CHECK(message(sgd{}, 3) == "");
}

TEST_CASE("one_bit_adam refuses options out of range") {
  CHECK(contains(refusal(one_bit_adam{.beta1 = 1}), "beta1"));
  CHECK(contains(refusal(one_bit_adam{.beta2 = -0.1}), "beta2"));
  CHECK(contains(refusal(one_bit_adam{.epsilon = 0}), "epsilon"));
  CHECK(contains(refusal(one_bit_adam{.weight_decay = -1}), "weight_decay"));
  for (const double start : {-1.0, std::nan(""), double{INFINITY}})
    CHECK(contains(refusal(one_bit_adam{.start_epoch = start}), "start_epoch"));
}
