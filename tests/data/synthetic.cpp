// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/synthetic.hpp>

using namespace cordee;

namespace {

std::vector<std::uint8_t> pixels_of(const synthetic& s, std::size_t i) {
  std::vector<std::uint8_t> x(s.image().size());
  s.read(i, x);
  return x;
}

}  // namespace

TEST_CASE("synthetic: an example is a function of seed and index") {
  const synthetic s{.extent = {3, 8, 8}, .classes = 4, .samples = 20, .seed = 1};
  const auto third = pixels_of(s, 3);
  pixels_of(s, 7);
  CHECK(pixels_of(s, 3) == third);
  CHECK(pixels_of(s, 7) != third);  // of the same class
  CHECK(pixels_of(synthetic{.extent = {3, 8, 8}, .classes = 4, .samples = 20, .seed = 2}, 3) !=
        third);
  CHECK(pixels_of(synthetic{.extent = {3, 8, 8}, .classes = 4, .samples = 99, .seed = 1}, 3) ==
        third);
}

TEST_CASE("synthetic: sizes of classes differ by at most one") {
  const synthetic s{.extent = {1, 4, 4}, .classes = 7, .samples = 100};
  std::vector<int> counts(7);
  std::vector<std::uint8_t> x(16);
  for (std::size_t i = 0; i < s.size(); ++i) ++counts.at(static_cast<std::size_t>(s.read(i, x)));
  for (const int n : counts) CHECK((n == 14 || n == 15));
}

TEST_CASE("synthetic: the nearest class mean of one half of the data classifies the other half") {
  const synthetic s{.extent = {1, 12, 12}, .classes = 5, .samples = 400, .seed = 9};
  std::vector<std::vector<double>> means(5, std::vector<double>(144));
  std::vector<std::uint8_t> x(144);
  for (std::size_t i = 0; i < 200; ++i) {
    const auto label = static_cast<std::size_t>(s.read(i, x));
    for (std::size_t k = 0; k < 144; ++k) means[label][k] += x[k] / 40.0;
  }
  int correct = 0;
  for (std::size_t i = 200; i < 400; ++i) {
    const int label = s.read(i, x);
    int best = -1;
    double smallest = 1e300;
    for (int c = 0; c < 5; ++c) {
      double d = 0;
      for (std::size_t k = 0; k < 144; ++k) {
        const double gap = x[k] - means[static_cast<std::size_t>(c)][k];
        d += gap * gap;
      }
      if (d < smallest) smallest = d, best = c;
    }
    correct += best == label ? 1 : 0;
  }
  CHECK(correct > 190);
}

TEST_CASE("synthetic: any extent, also of sizes that 4 does not divide") {
  for (const extent e : {extent{1, 1, 1}, extent{3, 5, 7}, extent{4, 2, 9}}) {
    const synthetic s{.extent = e, .samples = 3};
    CHECK(s.image() == e);
    CHECK(pixels_of(s, 2).size() == e.size());
  }
}

TEST_CASE("synthetic refuses an index beyond the data set and a buffer of another size") {
  const synthetic s{.extent = {1, 2, 2}, .samples = 3};
  std::vector<std::uint8_t> x(4), wrong(5);
  CHECK_THROWS_AS(s.read(3, x), usage_error);
  CHECK_THROWS_AS(s.read(0, wrong), usage_error);
}
