// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/split.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace cordee::detail::data;
using namespace support;

namespace {

std::vector<std::size_t> indices_of(const subset<numbered>& s) {
  return {s.indices().begin(), s.indices().end()};
}
int label_of(std::size_t i) { return static_cast<int>(i % 7); }

}  // namespace

TEST_CASE("split: every example is in exactly one part, in the order of the data set") {
  for (const double fraction : {0.0, 0.1, 0.2, 1.0 / 3, 0.5, 1.0}) {
    CAPTURE(fraction);
    const auto parts = split(numbered{100}, fraction, 1);
    const auto training = indices_of(parts.training), validation = indices_of(parts.validation);
    CHECK(std::is_sorted(training.begin(), training.end()));
    CHECK(std::is_sorted(validation.begin(), validation.end()));
    std::vector<std::size_t> both = training;
    both.insert(both.end(), validation.begin(), validation.end());
    std::sort(both.begin(), both.end());
    CHECK(both.size() == 100);
    CHECK(std::adjacent_find(both.begin(), both.end()) == both.end());
  }
}

TEST_CASE(
    "split: the total is the rounded fraction, each class is within one example of its fraction") {
  for (const std::size_t size : {1u, 6u, 7u, 50u, 100u})
    for (const double fraction : {0.0, 0.1, 0.17, 0.2, 0.5, 0.99, 1.0}) {
      CAPTURE(size);
      CAPTURE(fraction);
      const auto parts = split(numbered{size}, fraction, 1);
      CHECK(static_cast<long>(parts.validation.size()) ==
            std::lround(static_cast<double>(size) * fraction));
      for (int c = 0; c < 7; ++c) {
        const auto validation = indices_of(parts.validation);
        double total = 0, selected = 0;
        for (std::size_t i = 0; i < size; ++i) total += label_of(i) == c ? 1 : 0;
        for (const std::size_t i : validation) selected += label_of(i) == c ? 1 : 0;
        CHECK(std::abs(selected - total * fraction) < 1);
      }
    }
}

TEST_CASE("split: the selection is a function of the seed") {
  CHECK(indices_of(split(numbered{100}, 0.2, 1).validation) ==
        indices_of(split(numbered{100}, 0.2, 1).validation));
  CHECK(indices_of(split(numbered{100}, 0.2, 1).validation) !=
        indices_of(split(numbered{100}, 0.2, 2).validation));
}

TEST_CASE("a subset is a data set of the examples at its indices") {
  static_assert(Dataset<subset<numbered>>);
  const subset s(numbered{50}, {40, 3, 3});
  CHECK(s.size() == 3);
  CHECK(s.classes() == 7);
  CHECK(s.class_names().empty());
  std::vector<std::uint8_t> x(2);
  CHECK(s.read(0, x) == label_of(40));
  CHECK(x[0] == 40);
  CHECK(s.read(2, x) == label_of(3));
  CHECK_THROWS_AS(s.read(3, x), usage_error);
  CHECK_THROWS_AS(subset(numbered{50}, {50}), usage_error);
}

TEST_CASE("a subset of a subset reads the right examples") {
  const auto outer = split(numbered{100}, 0.5, 1);
  const auto inner = split(outer.training, 0.2, 2);
  CHECK(inner.validation.size() == 10);
  std::vector<std::uint8_t> x(2);
  for (std::size_t i = 0; i < inner.validation.size(); ++i) {
    inner.validation.read(i, x);
    CHECK(x[0] == outer.training.indices()[inner.validation.indices()[i]]);
  }
}

TEST_CASE("split refuses a fraction outside 0 .. 1") {
  CHECK_THROWS_AS(split(numbered{}, -0.1), usage_error);
  CHECK_THROWS_AS(split(numbered{}, 1.1), usage_error);
}

TEST_CASE("split: a label that is no class is refused") {
  struct mislabelled : numbered {
    int wrong = 0;
    int read(std::size_t i, std::span<std::uint8_t> pixels) const {
      const int label = numbered::read(i, pixels);
      return i == 12 ? wrong : label;
    }
  };
  for (const int wrong : {-1, 7}) {
    const std::string text = message_of<error>([&] { (void)split(mislabelled{{}, wrong}, 0.2); });
    CHECK(text == concat("split: example 12 has the label ", wrong, ", expected 0 to 6"));
  }
}
