// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// In a trainer: tests/optim/one_bit_adam.cpp.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/power_sgd.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/nn/parameter_list.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of an element of x in `epoch`, with a residual from before.
template <class R>
std::vector<double> mixed(const R& reducer, double epoch, std::vector<double>& residual) {
  std::vector<double> x(100);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<double>(i) + reducer.comm.rank());
  std::vector<std::byte> scratch(reducer.template scratch<double>(x.size()));
  bucket_view<double, cpu, R::slots> m{
      nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}};
  if constexpr (R::slots > 0) m.slots[0] = {residual.data(), residual.size()};
  reducer.mix(m, step_info{.epoch = epoch}, cpu::stream{});
  return x;
}

}  // namespace

TEST_CASE("two_stage: the first reducer before the epoch, the second from there on") {
  for (const int ranks : {1, 2, 3, 5, 8})
    on_ranks(ranks, [](threads comm) {
      const gathered signs{comm, scaled_sign{}};
      const two_stage stages{ring{comm}, signs, 2.5};
      std::vector<double> none, residual(100, 0.125), own = residual;
      CHECK(same_bits(mixed(stages, 2.49, residual), mixed(ring{comm}, 0, none)));
      CHECK(same_bits(residual, own));
      CHECK(same_bits(mixed(stages, 2.5, residual), mixed(signs, 0, own)));
      CHECK(same_bits(residual, own));
      return 0;
    });
}

TEST_CASE("two_stage: the laws of an exact mean in the first stage, of a rounded one behind it") {
  CHECK(reducer_laws(
            [](auto comm) {
              return two_stage{ring{comm}, compressed{ring{comm}, fp16{}}, 1};
            },
            {.ranks = {1, 2, 3, 5}, .rounding = 1e-6}) == "");
  CHECK(reducer_laws(
            [](auto comm) {
              return two_stage{ring{comm}, compressed{ring{comm}, fp16{}}, 0};
            },
            {.ranks = {1, 2, 3, 5}}) == "");
}

TEST_CASE("two_stage: describes itself, and refuses epochs and what its reducers refuse") {
  on_ranks(2, [](threads comm) {
    const auto of = [&](double start_epoch) {
      return two_stage{ring{comm}, power_sgd{ring{comm}}, start_epoch};
    };
    CHECK(of(2).describe() ==
          concat(ring{comm}.describe(), "; from epoch 2 ", power_sgd{ring{comm}}.describe()));
    const parameter_list layer = parameter_list{}.add("weight", {64, 64});
    CHECK(error_message([&] { of(2).check(layer.segments()); }) == "");
    for (const double epoch : {-1.0, std::nan(""), double{INFINITY}})
      CHECK(contains(error_message([&] { of(epoch).check(layer.segments()); }), "start_epoch"));
    CHECK(contains(error_message([&] { of(2).check({}); }), "power_sgd: no tensor"));
    return 0;
  });
}
