// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/series.hpp>

using namespace cordee;

namespace {

struct pair_of {
  std::int16_t first = 0;
  double second = 0;
  bool operator==(const pair_of&) const = default;
};

template <class T>
void same(const series<T>& ours, const std::vector<T>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  CHECK(ours.empty() == theirs.empty());
  CHECK(std::vector<T>(ours.begin(), ours.end()) == theirs);
  CHECK(ours.span().data() == ours.data());
  CHECK(ours.span().size() == theirs.size());
  if (!theirs.empty()) CHECK(ours.back() == theirs.back());
}

}  // namespace

TEST_CASE("a series is the vector that has seen the same") {
  std::mt19937 random(7);
  series<pair_of> ours;
  std::vector<pair_of> theirs;
  for (int k = 0; k < 2000; ++k) {
    const unsigned what = random() % 16;
    if (what == 0) {
      ours.clear();
      theirs.clear();
    } else if (what == 1) {
      const std::size_t size = random() % 40;
      ours.resize(size);
      theirs.resize(size);
    } else if (what < 5 && !theirs.empty()) {
      ours.pop_back();
      theirs.pop_back();
    } else {
      const pair_of next{static_cast<std::int16_t>(k), k / 4.0};
      ours.push_back(next);
      theirs.push_back(next);
    }
    same(ours, theirs);
  }
}

TEST_CASE("a series takes a copy of one of its own, whether it grows or not") {
  series<int> all;
  all.push_back(11);
  for (int k = 0; k < 20; ++k) all.push_back(all[0]);
  for (const int one : all) CHECK(one == 11);
}

TEST_CASE(
    "a series that moves leaves an empty one or what the other had, and its values stay put") {
  series<int> from;
  for (int k = 0; k < 5; ++k) from.push_back(k);
  const int* const values = from.data();
  series<int> to = std::move(from);
  CHECK(to.data() == values);
  same(to, {0, 1, 2, 3, 4});
  series<int> other;
  other.push_back(9);
  other = std::move(to);
  CHECK(other.data() == values);
  same(other, {0, 1, 2, 3, 4});
}

TEST_CASE("a series grows seldom, and not at all where it has been") {
  series<int> all;
  int moves = 0;
  const int* before = nullptr;
  for (int k = 0; k < 1000; ++k) {
    all.push_back(k);
    if (std::exchange(before, all.data()) != all.data()) ++moves;
  }
  CHECK(moves <= 11);
  all.clear();
  all.resize(1000);
  CHECK(all.data() == before);
  for (const int one : all) CHECK(one == 0);
}
