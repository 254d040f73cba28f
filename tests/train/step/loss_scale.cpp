// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/train/step/loss_scale.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Loss scaling as in fp16, in a precision that does not round scaled values.
template <class P>
struct loss_scaled : P {
  static constexpr bool scales_loss = true;
};

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("loss_scale: the golden trace, infinities at steps 0, 1 and 6, interval 3") {
  const detail::train::loss_scaling options{.interval = 3};
  detail::train::loss_scale s{65536};
  const std::vector<bool> finite{false, false, true, true, true, true, false, true, true, true};
  const std::vector<float> values{32768, 16384, 16384, 16384, 32768,
                                  32768, 16384, 16384, 16384, 32768};
  const std::vector<int> finite_steps{0, 0, 1, 2, 0, 1, 0, 1, 2, 0};
  for (std::size_t k = 0; k < finite.size(); ++k) {
    s.update(options, finite[k]);
    CHECK(s.value == values[k]);
    CHECK(s.finite_steps == finite_steps[k]);
  }
}

TEST_CASE("loss_scale: it falls to the smallest and no lower, and grows again from there") {
  const detail::train::loss_scaling options{.interval = 1};
  detail::train::loss_scale s{3};
  std::vector<float> values;
  for (const bool finite : {false, false, false, true}) {
    s.update(options, finite);
    values.push_back(s.value);
  }
  CHECK(values == std::vector<float>{1.5, 1, 1, 2});
}

TEST_CASE("trainer: overflow at the smallest loss scale is not blamed on the learning rate") {
  quadratic<loss_scaled<fp64>> m;
  for (int k = 0; k < 9; ++k) m.poisons.push_back({k, 2, infinity});
  trainer run{m,
              sgd{},
              constant{0.1},
              solo{},
              {.max_nonfinite_steps = 5, .loss_scaling = {.initial = 4, .smallest = 2}}};
  const batch<cpu> one = one_each(1);
  const std::string message = error_message([&] {
    for (int k = 0; k < 9; ++k) (void)run.step({&one, 1}, k);
  });
  CAPTURE(message);
  CHECK(contains(message, "loss scale 2): the loss scale is at its smallest"));
  CHECK_FALSE(contains(message, "lower the learning rate"));
}

TEST_CASE("trainer: a share of skipped steps ends the run, resumed or not") {
  for (const bool resumed : {false, true}) {
    quadratic<loss_scaled<fp64>> m;
    for (int k = 0; k < 40; k += 2) m.poisons.push_back({k, 2, infinity});
    const auto make = [&] {
      return trainer{m, sgd{}, constant{0.1}, solo{}, {.max_nonfinite_share = 0.02}};
    };
    auto first = make(), second = make();
    const batch<cpu> one = one_each(1);
    int steps = 0;
    const std::string message = error_message([&] {
      for (; steps < 9; ++steps) (void)first.step({&one, 1}, steps);
      if (resumed) second.restore(first.state());
      for (; steps < 40; ++steps) (void)(resumed ? second : first).step({&one, 1}, steps);
    });
    CHECK(steps == 20);  // the eleventh: more than 2 % of 500
    CHECK(contains(message, "11 of the last 21 steps had a gradient with a NaN"));
    CHECK(contains(message, "\"W2\""));
    CHECK(contains(message, "samples"));
  }
}

TEST_CASE("trainer: a scaled loss whose gradient is zero for long ends the run") {
  quadratic<loss_scaled<fp64>> scaled;
  quadratic<fp64> plain;
  const auto steps = [](auto& m) {
    trainer run{m, sgd{}, constant{0.1}, solo{}, {.max_nonfinite_steps = 5}};
    for (std::size_t k = 0; k < t4_center.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        run.weights()[t4_table[k].offset + i] = t4_center[k][i];
    run.adopt_weights();
    const batch<cpu> one = one_each(1);
    return error_message([&] {
      for (int k = 0; k < 9; ++k) (void)run.step({&one, 1}, k);
    });
  };
  CHECK(contains(steps(scaled), "5 steps in a row had a gradient of zero"));
  CHECK(steps(plain) == "");
}

TEST_CASE("loss_scale: growth stops before infinity, and the count restarts") {
  detail::train::loss_scale s{0x1p127f, 0};
  s.update({.interval = 1}, true);
  CHECK(s.value == 0x1p127f);
  CHECK(s.finite_steps == 0);
}

TEST_CASE("loss_scaling: options without meaning are rejected") {
  for (const detail::train::loss_scaling& wrong :
       {detail::train::loss_scaling{.initial = 0}, detail::train::loss_scaling{.initial = infinity},
        detail::train::loss_scaling{.initial = 1e39}, detail::train::loss_scaling{.initial = 1e-46},
        detail::train::loss_scaling{.initial = 1e-40}, detail::train::loss_scaling{.growth = 0.5},
        detail::train::loss_scaling{.backoff = 0}, detail::train::loss_scaling{.backoff = 2},
        detail::train::loss_scaling{.interval = 0}, detail::train::loss_scaling{.smallest = 0},
        detail::train::loss_scaling{.initial = 0.5}})
    CHECK(contains(error_message([&] { wrong.check(); }), "loss_scaling: "));
  for (const double least_and_most : {0x1p-126, 0x1p127}) {
    const detail::train::loss_scale s =
        detail::train::loss_scale::first({.initial = least_and_most, .smallest = 0x1p-126});
    CHECK(s.value == least_and_most);
    CHECK(s.inverse() == 1 / least_and_most);
  }
}

TEST_CASE("trainer: a loss scaled by powers of two trains to the same bits") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    on_ranks(ranks, [](threads comm) {
      quadratic<fp64> plain;
      quadratic<loss_scaled<fp64>> half;
      plain.shift = half.shift = 0.1 * comm.rank();
      const auto optimizer = lars{.trust_coefficient = 0.1};
      trainer a{plain, optimizer, constant{0.1}, ring{comm}};
      trainer b{half, optimizer, constant{0.1}, ring{comm}, {.loss_scaling = {.interval = 2}}};
      for (int k = 0; k < 9; ++k) {
        const batch<cpu> one = one_each(comm.size());
        const auto out = b.step({&one, 1}, k);
        CHECK(a.step({&one, 1}, k).squared_global_norm == out.squared_global_norm);
        CHECK(out.loss_scale == 65536 * std::exp2(k / 2));  // of this step
      }
      for (std::size_t k = 0; k < 4; ++k) CHECK(numbers(a.weights(), k) == numbers(b.weights(), k));
      return 0;
    });
  }
}

TEST_CASE("trainer: an overflow on one rank makes all ranks skip the step and halve their scales") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    on_ranks(ranks, [](threads comm) {
      quadratic<loss_scaled<fp64>> m;
      if (comm.rank() == comm.size() / 2) m.poisons = {{1, 2, infinity}, {2, 0, infinity}};
      trainer run{m, sgd{}, constant{0.1}, ring{comm}};
      const batch<cpu> one = one_each(comm.size());
      std::vector<double> scales;
      std::vector<bool> applied;
      for (int k = 0; k < 4; ++k) {
        const auto out = run.step({&one, 1}, k);
        scales.push_back(out.loss_scale);
        applied.push_back(out.applied);
      }
      CHECK(scales == std::vector<double>{65536, 65536, 32768, 16384});
      CHECK(applied == std::vector<bool>{true, false, false, true});
      return 0;
    });
  }
}

TEST_CASE("trainer: with local_steps each rank has its own loss scale") {
  on_ranks(2, [](threads comm) {
    quadratic<loss_scaled<fp64>> m;
    if (comm.rank() == 1) m.poisons = {{0, 2, infinity}};
    trainer run{m, local_steps{sgd{}, 2}, constant{0.1}, ring{comm}};
    const batch<cpu> one = one_each(2);
    (void)run.step({&one, 1}, 0);
    CHECK(run.step({&one, 1}, 1).loss_scale == (comm.rank() == 1 ? 32768 : 65536));
    return 0;
  });
}

TEST_CASE("trainer: overflow in every step ends the run with the tensor's name") {
  quadratic<loss_scaled<fp64>> m;
  for (int k = 0; k < 9; ++k) m.poisons.push_back({k, 2, infinity});
  trainer run{m, sgd{}, constant{0.1}, solo{}, {.max_nonfinite_steps = 5}};
  const batch<cpu> one = one_each(1);
  const std::string message = error_message([&] {
    for (int k = 0; k < 9; ++k) (void)run.step({&one, 1}, k);
  });
  CAPTURE(message);
  CHECK(contains(message, "5 steps in a row"));
  CHECK(contains(message, "\"W2\""));
  CHECK(contains(message, "loss scale 4096"));
}

TEST_CASE("trainer: limits of skipped steps that no run could keep are refused") {
  quadratic<loss_scaled<fp64>> m;
  const auto refused = [&](const trainer_options& options, const char* text) {
    CHECK_THROWS_WITH_AS((trainer{m, sgd{}, constant{0.1}, solo{}, options}),
                         doctest::Contains(text), usage_error);
  };
  for (const int steps : {0, -1})
    refused({.max_nonfinite_steps = steps}, "trainer: max_nonfinite_steps is a number of steps");
  for (const double share : {-0.1, 1.1, std::nan("")})
    refused({.max_nonfinite_share = share}, "trainer: max_nonfinite_share is a share");
}
