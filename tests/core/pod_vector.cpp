// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/pod_vector.hpp>

using cordee::detail::core::pod_vector;

namespace {

struct pair {
  std::int16_t first = 0;
  double second = 0;
  bool operator==(const pair&) const = default;
};

template <class T>
void check_equal(const pod_vector<T>& ours, const std::vector<T>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  CHECK(ours.empty() == theirs.empty());
  CHECK(std::vector<T>(ours.begin(), ours.end()) == theirs);
  CHECK(ours.span().data() == ours.data());
  CHECK(ours.span().size() == theirs.size());
  if (!theirs.empty()) CHECK(ours.back() == theirs.back());
}

}  // namespace

TEST_CASE("pod_vector: equals a std::vector after the same random operations") {
  std::mt19937 random(7);
  pod_vector<pair> ours;
  std::vector<pair> theirs;
  for (int k = 0; k < 2000; ++k) {
    const unsigned operation = random() % 16;
    if (operation == 0) {
      ours.clear();
      theirs.clear();
    } else if (operation == 1) {
      const std::size_t size = random() % 40;
      ours.resize(size);
      theirs.resize(size);
    } else if (operation < 5 && !theirs.empty()) {
      ours.pop_back();
      theirs.pop_back();
    } else {
      const pair next{static_cast<std::int16_t>(k), k / 4.0};
      ours.push_back(next);
      theirs.push_back(next);
    }
    check_equal(ours, theirs);
  }
}

TEST_CASE("pod_vector: push_back of its own element, with and without growth") {
  pod_vector<int> all;
  all.push_back(11);
  for (int k = 0; k < 20; ++k) all.push_back(all[0]);
  for (const int value : all) CHECK(value == 11);
}

TEST_CASE("pod_vector: a move transfers the memory; move assignment exchanges it") {
  pod_vector<int> from;
  for (int k = 0; k < 5; ++k) from.push_back(k);
  const int* const values = from.data();
  pod_vector<int> to = std::move(from);
  CHECK(to.data() == values);
  check_equal(to, {0, 1, 2, 3, 4});
  pod_vector<int> other;
  other.push_back(9);
  other = std::move(to);
  CHECK(other.data() == values);
  check_equal(other, {0, 1, 2, 3, 4});
}

TEST_CASE("pod_vector: capacity doubles, and is kept by clear") {
  pod_vector<int> all;
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
  for (const int value : all) CHECK(value == 0);
}
