// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/split.hpp>

#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

std::vector<std::size_t> of(const subset<numbered>& s) {
  return {s.which().begin(), s.which().end()};
}
int label_of(std::size_t i) { return static_cast<int>(i % 7); }

}  // namespace

TEST_CASE("split: every example is in exactly one part, in the order of the whole") {
  for (const double fraction : {0.0, 0.1, 0.2, 1.0 / 3, 0.5, 1.0}) {
    CAPTURE(fraction);
    const auto parts = split(numbered{100}, fraction, 1);
    const auto training = of(parts.training), held_out = of(parts.held_out);
    CHECK(std::is_sorted(training.begin(), training.end()));
    CHECK(std::is_sorted(held_out.begin(), held_out.end()));
    std::vector<std::size_t> all = training;
    all.insert(all.end(), held_out.begin(), held_out.end());
    std::sort(all.begin(), all.end());
    CHECK(all.size() == 100);
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }
}

TEST_CASE("split: the total is the rounded share of the whole, each class within one of its own") {
  for (const std::size_t size : {1u, 6u, 7u, 50u, 100u})
    for (const double fraction : {0.0, 0.1, 0.17, 0.2, 0.5, 0.99, 1.0}) {
      CAPTURE(size);
      CAPTURE(fraction);
      const auto parts = split(numbered{size}, fraction, 1);
      CHECK(static_cast<long>(parts.held_out.size()) ==
            std::lround(static_cast<double>(size) * fraction));
      for (int c = 0; c < 7; ++c) {
        const auto held = of(parts.held_out);
        double all = 0, out = 0;
        for (std::size_t i = 0; i < size; ++i) all += label_of(i) == c ? 1 : 0;
        for (const std::size_t i : held) out += label_of(i) == c ? 1 : 0;
        CHECK(std::abs(out - all * fraction) < 1);
      }
    }
}

TEST_CASE("split: the seed decides, and nothing else") {
  CHECK(of(split(numbered{100}, 0.2, 1).held_out) == of(split(numbered{100}, 0.2, 1).held_out));
  CHECK(of(split(numbered{100}, 0.2, 1).held_out) != of(split(numbered{100}, 0.2, 2).held_out));
}

TEST_CASE("a subset is a data set that reads the examples it names") {
  static_assert(Dataset<subset<numbered>>);
  const subset s(numbered{50}, {40, 3, 3});
  CHECK(s.size() == 3);
  CHECK(s.classes() == 7);
  std::vector<std::uint8_t> x(2);
  CHECK(s.read(0, x) == label_of(40));
  CHECK(x[0] == 40);
  CHECK(s.read(2, x) == label_of(3));
  CHECK_THROWS_AS(s.read(3, x), misuse);
  CHECK_THROWS_AS(subset(numbered{50}, {50}), misuse);
}

TEST_CASE("a part of a part reads the right examples") {
  const auto outer = split(numbered{100}, 0.5, 1);
  const auto inner = split(outer.training, 0.2, 2);
  CHECK(inner.held_out.size() == 10);
  std::vector<std::uint8_t> x(2);
  for (std::size_t i = 0; i < inner.held_out.size(); ++i) {
    inner.held_out.read(i, x);
    CHECK(x[0] == outer.training.which()[inner.held_out.which()[i]]);
  }
}

TEST_CASE("split: a fraction is one") {
  CHECK_THROWS_AS(split(numbered{}, -0.1), misuse);
  CHECK_THROWS_AS(split(numbered{}, 1.1), misuse);
}
