// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/clip.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/train/step/planes.hpp>
#include <cordee/train/step/segment_state.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using support::contains;
using support::error_message;
using support::t4_table;

namespace {

struct two_numbers {
  static constexpr int slots = 0, segment_numbers = 2;
};
struct hides_numbers {  // an optimizer around another, without segment_numbers
  static constexpr int slots = 3;
};
struct no_reducer {
  static constexpr int slots = 0;
};
using planes_of_two = detail::train::planes<double, cpu, two_numbers, no_reducer>;

}  // namespace

static_assert(detail::optim::segment_numbers_of<sgd>() == 0);
static_assert(detail::optim::segment_numbers_of<clip<zero_one_adam>>() == 1);
static_assert(detail::optim::segment_numbers_of<parameter_groups<sgd, 1>>() == 0);

TEST_CASE("segment_state: each view has the numbers of its segments") {
  planes_of_two p(cpu(1), t4_table);
  CHECK(p.numbers().saved({}) == std::vector<double>(2 * t4_table.size()));
  const auto last_two = p.view_of(p.trainables().subspan(2), 2, true);
  REQUIRE(last_two.numbers.size == 4);
  for (std::size_t i = 0; i < 4; ++i) last_two.numbers[i] = static_cast<double>(i + 1);
  CHECK(p.numbers().saved({}) == std::vector<double>{0, 0, 0, 0, 1, 2, 3, 4, 0, 0});
  const auto one = detail::optim::part_of(p.view_of(p.trainables(), 0, true), 3, 1);
  REQUIRE(one.numbers.size == 2);
  CHECK(one.numbers[0] == 3);
}

TEST_CASE("segment_state: numbers are restored, and those of another optimizer refused") {
  planes_of_two p(cpu(1), t4_table);
  const std::vector<double> saved{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  p.numbers().restore(saved, {});
  CHECK(p.numbers().saved({}) == saved);
  CHECK(contains(error_message([&] { p.numbers().restore(std::vector<double>(9), {}); }),
                 "the saved optimizer has 9 numbers of segments, this one 10"));
}

TEST_CASE("segment_state: an optimizer without numbers has none, and is given none") {
  detail::train::segment_state<sgd, cpu> none(cpu(1), 5);
  CHECK(none.size() == 0);
  CHECK(none.of<cpu>(2, 3).empty());
  CHECK(none.saved({}).empty());
  none.restore(std::vector<double>{}, {});
  CHECK(contains(error_message([&] { none.restore(std::vector{1.0}, {}); }), "has 1 numbers"));
}

TEST_CASE("segment_state: an optimizer whose numbers another hides says what to declare") {
  detail::train::planes<double, cpu, hides_numbers, no_reducer> p(cpu(1), t4_table);
  const auto view = p.view_of(p.trainables(), 0, true);
  CHECK(
      contains(error_message([&] { one_bit_lamb{}.accept(view, {}, {}); }),
               "one_bit_lamb: its view has too few numbers of segments: give the optimizer around "
               "it `static constexpr int segment_numbers = 2;`"));
  CHECK(contains(error_message([&] { zero_one_adam{}.initialize(view, {}); }),
                 "`static constexpr int segment_numbers = 1;`"));
}
