// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Newton-Schulz steps on a GPU, emulated, beside the CPU's, and whole steps of muon.
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/core/random.hpp>
#include <cordee/ops/gpu/newton_schulz.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/newton_schulz.hpp>
#include <cordee/train/muon/muon.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/device_quadratic.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/optimizer_on_device.hpp"
#include "tests/support/shaped.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class Real>
void compare(std::size_t rows, std::size_t columns, int steps, double tolerance) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(steps);
  random_sequence random(5, purpose::test, rows, columns);
  std::vector<Real> x(rows * columns);
  double square = 0;
  for (Real& v : x) {
    v = static_cast<Real>(random.normal());
    square += static_cast<double>(v) * static_cast<double>(v);
  }
  std::vector<Real> y = x;
  detail::optim::newton_schulz<Real>(steps, 1e-7)(x.data(), rows, columns, cpu::stream{});
  const emulated device(3);
  const auto s = device.make_stream();
  detail::ops::newton_schulz_iterate(y.data(), rows, columns, steps, 1e-7,
                                     detail::optim::newton_schulz_coefficients{}, &square, s);
  device.finish(s);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  CHECK(worst < tolerance);
}

/// T4 with W1 (2, 2) and W2 (1, 2), on a device whose streams run as late as they may.
auto shaped_quadratic() {
  parameter_list list;
  list.add("W1", {2, 2}).add("b1", {2}, kind::bias).add("W2", {1, 2}).add("b2", {1}, kind::bias);
  list.add("seen", {1}, kind::statistic);
  const deferred device;
  return custom_model<shift, fp64, deferred>{
      list, device_quadratic_pass<fp64, deferred>{device.make_stream()}, device,
      [device](const segment& s, span_on<double, deferred> to, std::uint64_t) {
        const deferred::stream at_once{};
        for (std::size_t k = 0; k < t4_start.size(); ++k)
          if (t4_table[k].name == s.name)
            device.copy(to.data, t4_start[k].data(), s.size * sizeof(double), at_once);
        device.finish(at_once);
      }};
}

}  // namespace

TEST_CASE(
    "newton_schulz on a GPU, emulated: the CPU's iterates of wide, tall and square matrices") {
  for (const auto& [rows, columns] :
       {std::pair{1u, 1u}, {1u, 7u}, {7u, 1u}, {8u, 33u}, {33u, 8u}, {35u, 35u}, {40u, 70u}})
    for (const int steps : {1, 2, 5, 7}) {
      // The order of sums differs. Errors of S grow by a^2 = 12 in each of five steps, and then on.
      compare<double>(rows, columns, steps, 1e-9);
      if (steps <= 5) compare<float>(rows, columns, steps, 2e-3);
    }
}

TEST_CASE("muon on a GPU, emulated: steps equal the CPU's, skipped ones included") {
  const auto step = [](detail::train::muon_options options) {
    options.first_layer = options.classifier = "";
    expect_same_as_cpu<double>(shaped{muon{adamw{}, options}}, emulated(1));
  };
  step({});
  step({.nesterov = false, .steps = 3, .scale_by = muon_scale::match_rms_adamw});
}

TEST_CASE("muon in a trainer on a GPU, emulated: the goldens of tests/train/muon/muon.cpp") {
  const std::array<std::vector<double>, 4> golden{
      {{0.381117341254, -0.117912031062, 0.628036448912, 0.0087667484687},
       {0.170721687009, -0.0418731190001},
       {0.845443641645, -1.83647800383},
       {-0.0259317778673}}};
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    for (const auto& weights : on_ranks(ranks, [&](threads comm) {
           auto model = shaped_quadratic();
           trainer run{model, muon{adamw{}, {.first_layer = "", .classifier = ""}},
                       learning_rates({0.1, 0.1, 0.05}), ring{comm}};
           for (int k = 0; k < 3; ++k) {
             shift own = shift_of(comm.rank(), ranks);
             std::array<typename decltype(run)::batch_type, 1> micro{};
             micro[0].data = &own;
             micro[0].count = 1;
             micro[0].global_samples = ranks;
             micro[0].ranks = ranks;
             CHECK(run.step(micro, k).applied);
           }
           const span_on<const double, deferred> all = run.weights();
           return copy_to_host(model.get_device(), all, run.compute());
         }))
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < golden[k].size(); ++i)
          CHECK(close(weights[t4_table[k].offset + i], golden[k][i], 1e-10));
  }
}
