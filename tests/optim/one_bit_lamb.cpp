// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/checks/pairing.hpp>

#include "tests/support/ranks.hpp"
#include "tests/train/continues.hpp"
#include "tests/train/goldens_mixing.hpp"

using namespace cordee;
using namespace support;
using detail::train::Compatible;

static_assert(OptimizerOn<one_bit_lamb, float, cpu> && one_bit_lamb::slots == 3);
static_assert(!Compatible<one_bit_lamb, sharded<ring<threads>>>);

namespace {

const by_ranks of_one_bit_lamb{
    {{0.415220682537, -0.20754971415, 0.702434744593, 0.00504349186286, 0.0259673927295,
      0.173295307152, 0.732522071265, -1.71117316334, 0.0402923270503}},
    {{0.386217688883, -0.179173922769, 0.737294985125, 0.0151263578698, 0.033232207485,
      0.179634154201, 0.732803031218, -1.69903446508, 0.0402923270503},
     {0.386217688883, -0.179173922769, 0.737294985125, 0.0151263578698, 0.033232207485,
      0.179634154201, 0.732803031218, -1.69903446508, 0.0402923270503},
     {0.386217688883, -0.179173922769, 0.737294985125, 0.0151263578698, 0.033232207485,
      0.179634154201, 0.732803031218, -1.69903446508, 0.0402923270503}},
    {{0.379393016361, -0.218820722585, 0.737925830081, 0.0160833246791, 0.0315081723587,
      0.179493506822, 0.752121385971, -1.72251481405, 0.0402923270503},
     {0.379393016361, -0.218820722585, 0.737925830081, 0.0160833246791, 0.0315081723587,
      0.179493506822, 0.752121385971, -1.72251481405, 0.0402923270503},
     {0.379393016361, -0.218820722585, 0.737925830081, 0.0160833246791, 0.0315081723587,
      0.179493506822, 0.752121385971, -1.72251481405, 0.0402923270503},
     {0.379393016361, -0.218820722585, 0.737925830081, 0.0160833246791, 0.0315081723587,
      0.179493506822, 0.752121385971, -1.72251481405, 0.0402923270503}}};

const one_bit_lamb short_warmup{
    .weight_decay = 0.01, .start_epoch = 4, .coeff_beta = 0.5, .factor_min = 0.75};

constexpr auto in_two_stages(double start_epoch) {
  return [start_epoch](threads comm) {
    return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, start_epoch};
  };
}

template <class O>
std::string refusal(const O& optimizer) {
  return error_message([&] { optimizer.check(); });
}

}  // namespace

TEST_CASE("one_bit_lamb, four exact steps and six of signs of momenta, on 1, 3 and 4 ranks") {
  std::vector<double> rates(4, 0.01);
  rates.resize(10, 0.02);
  reaches<fp64>(short_warmup, rates, of_one_bit_lamb, in_two_stages(4));
}

TEST_CASE("one_bit_lamb obeys the optimizer laws in both stages") {
  CHECK(optimizer_laws(one_bit_lamb{.weight_decay = 0.1, .start_epoch = 1000}) == "");
  CHECK(optimizer_laws(one_bit_lamb{.weight_decay = 0.1, .start_epoch = 2}) == "");
  CHECK(optimizer_laws(one_bit_lamb{.start_epoch = 0}) == "");
}

TEST_CASE("one_bit_lamb: a factor is limited, then held within a share of the one before") {
  const one_bit_lamb optimizer{.factor_max = 4, .factor_min = 0.5, .factor_threshold = 0.1};
  const auto factors = [&](double quotient, int steps, double first = 0) {
    std::vector<double> all;
    double c = 2, s = first;
    for (int k = 0; k < steps; ++k) {
      const double r = optimizer.ratio({1, 1, quotient}, 1, c, s, true);
      CHECK(r == 2 * s);
      all.push_back(s);
    }
    return all;
  };
  CHECK(factors(1, 2) == std::vector<double>{1, 1});
  CHECK(factors(1.05, 1) == std::vector<double>{1.05});
  CHECK(factors(3, 3) == std::vector<double>{1.1, 1.1 * 1.1, 1.1 * 1.1 * 1.1});
  CHECK(factors(0.2, 2) == std::vector<double>{0.9, 0.9 * 0.9});
  CHECK(factors(9, 1, 3.9) == std::vector<double>{4});
  CHECK(factors(0.2, 1, 0.52) == std::vector<double>{0.5});
}

TEST_CASE("one_bit_lamb: decay draws a factor towards 1, a tensor without ratio keeps 1") {
  const one_bit_lamb optimizer{.factor_threshold = 0.9};
  double c = 0, s = 0;
  // |u - decay w| is half of |u|: 1 + (1.5 - 1) / 2.
  CHECK(optimizer.ratio({4, 1, 1.5}, 1, c, s, true) == 1.25);
  CHECK(c == 0);
  s = 0;
  CHECK(optimizer.ratio({0, 0, 1.5}, 1, c, s, true) == 1.5);
  // In the warm-up: |w| / |u|, limited, and 1 where either is zero.
  CHECK(optimizer.ratio({4, 4, 0}, 6, c, s, false) == 3);
  CHECK(std::abs(c - 0.3) <= 1e-15);
  CHECK(optimizer.ratio({4, 4, 0}, 600, c, s, false) == 10);
  CHECK(optimizer.ratio({4, 4, 0}, 1e-9, c, s, false) == 0.01);
  const double before = c;
  CHECK(optimizer.ratio({4, 4, 0}, 0, c, s, false) == 1);
  CHECK(optimizer.ratio({0, 0, 0}, 5, c, s, false) == 1);
  CHECK(c == before);
}

TEST_CASE("one_bit_lamb: figures of any length are those of a loop over its numbers") {
  constexpr double epsilon = 1e-8, decay = 0.1;
  for (const bool compressed : {false, true})
    for (const std::size_t n : std::vector<std::size_t>{1, 7, 255, 256, 257, 1000}) {
      std::vector<double> w(n), m(n), v(n), f(n), u(n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto x = static_cast<double>(i);
        w[i] = std::sin(x + 1), m[i] = std::sin(2 * x + 1), u[i] = std::sin(3 * x + 2);
        v[i] = i % 5 == 4 ? 0 : std::abs(std::sin(5 * x + 3));
        f[i] = i % 7 == 6 ? 0 : std::abs(std::cos(x));
      }
      const auto figures = detail::optim::update_moments<double>(
          {w.data(), m.data(), v.data(), f.data(), u.data(), 0.9, 0.1, 0.999, 0.001, epsilon, decay,
           compressed, false},
          0, n);
      double steps = 0, directions = 0, largest = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double direction = u[i] - decay * w[i], root = std::sqrt(v[i]) + epsilon;
        steps += u[i] * u[i];
        directions += direction * direction;
        largest = std::max(largest, v[i] > 0 ? root / (std::sqrt(f[i]) + epsilon) : 1);
      }
      // n sums, square roots and quotients of 53 bits
      const double tolerance = 1e-15 * static_cast<double>(n + 8);
      CHECK(close(figures.squared_step, steps, tolerance));
      if (!compressed) continue;
      CHECK(close(figures.squared_direction, directions, tolerance));
      CHECK(close(figures.largest_quotient, largest, tolerance));
    }
}

TEST_CASE("one_bit_lamb over an exact mean of momenta is that over gradients, on any ranks") {
  // The mean of beta1 m + (1 - beta1) g_i is beta1 m + (1 - beta1) g: a step of roundings apart.
  const std::vector<double> rates{0.01, 0.01, 0.01, 0.01, 0.01};
  const one_bit_lamb optimizer{.weight_decay = 0.01, .start_epoch = 2};
  const auto one = trained<fp64>(1, optimizer, rates, over_mean);
  for (const int ranks : {2, 3, 5, 8}) {
    const auto several = trained<fp64>(ranks, optimizer, rates, over_mean);
    for (std::size_t i = 0; i < one[0].size(); ++i) CHECK(close(several[0][i], one[0][i], 1e-12));
  }
}

TEST_CASE("one_bit_lamb: ranks have the same bits after each step, compressed ones too") {
  for (const int ranks : {2, 3, 5}) {
    const auto weights =
        trained<fp32>(ranks, short_warmup, std::vector<double>(9, 0.01), in_two_stages(4));
    for (const auto& rank : weights) CHECK(rank == weights[0]);
  }
}

TEST_CASE("one_bit_lamb goes on with equal bits, from either stage and from between them") {
  for (const int ranks : {1, 2, 3})
    for (const double start : {2.0, 4.0, 5.0, 8.0}) {  // the second run begins with step 5
      one_bit_lamb optimizer = short_warmup;
      optimizer.start_epoch = start;
      continues<fp32>("one_bit_lamb", optimizer, in_two_stages(start), {{3, 1}}, ranks);
    }
}

TEST_CASE("one_bit_lamb: the stages of optimizer and reducer begin in the same epoch") {
  const auto message = [](const auto& optimizer, double start_epoch) {
    return error_message([&] {
      on_ranks(2, [&](threads comm) {
        quadratic<fp64> model{};
        trainer run{model, optimizer, [](double) { return 0.01; },
                    in_two_stages(start_epoch)(comm)};
        return 0;
      });
    });
  };
  CHECK(message(one_bit_lamb{.start_epoch = 2}, 2) == "");
  CHECK(contains(message(clip{one_bit_lamb{.start_epoch = 2}}, 3),
                 "start_epoch must be that of the reducer's two_stage"));
}

TEST_CASE("one_bit_lamb refuses options out of range") {
  CHECK(contains(refusal(one_bit_lamb{.beta1 = 1}), "beta1"));
  CHECK(contains(refusal(one_bit_lamb{.beta2 = -0.1}), "beta2"));
  CHECK(contains(refusal(one_bit_lamb{.epsilon = 0}), "epsilon"));
  CHECK(contains(refusal(one_bit_lamb{.weight_decay = -1}), "weight_decay"));
  CHECK(contains(refusal(one_bit_lamb{.coeff_beta = 1}), "coeff_beta"));
  CHECK(contains(refusal(one_bit_lamb{.max_coeff = 0.001}), "max_coeff"));
  CHECK(contains(refusal(one_bit_lamb{.max_coeff = INFINITY}), "max_coeff"));
  CHECK(contains(refusal(one_bit_lamb{.min_coeff = 0}), "min_coeff"));
  CHECK(contains(refusal(one_bit_lamb{.factor_max = 0.4}), "factor_max"));
  CHECK(contains(refusal(one_bit_lamb{.factor_min = 0}), "factor_min"));
  CHECK(contains(refusal(one_bit_lamb{.factor_threshold = 1}), "factor_threshold"));
  for (const double start : {-1.0, std::nan(""), double{INFINITY}})
    CHECK(contains(refusal(one_bit_lamb{.start_epoch = start}), "start_epoch"));
}
