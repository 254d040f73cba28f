// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>

using namespace cordee;

// The known answers that Random123 publishes for philox4x32, ten rounds.
static_assert(detail::core::philox({0, 0, 0, 0}, 0) ==
              detail::core::philox_block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(detail::core::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                                   0xffffffffffffffff) ==
              detail::core::philox_block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(detail::core::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                                   0x299f31d0a4093822) ==
              detail::core::philox_block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

namespace {
std::vector<std::uint32_t> first(std::size_t n, std::uint64_t seed, purpose use, std::uint64_t a,
                                 std::uint64_t b) {
  random_sequence random(seed, use, a, b);
  std::vector<std::uint32_t> numbers(n);
  for (std::uint32_t& x : numbers) x = random.bits();
  return numbers;
}
}  // namespace

TEST_CASE("random: a sequence is a function of seed, purpose, a and b, and of nothing else") {
  const auto one = first(9, 1, purpose::augmentation, 3, 17);
  random_sequence unrelated(1, purpose::shuffle, 0, 0);
  for (int i = 0; i < 5; ++i) unrelated.bits();
  CHECK(first(9, 1, purpose::augmentation, 3, 17) == one);
  CHECK(first(9, 2, purpose::augmentation, 3, 17) != one);
  CHECK(first(9, std::uint64_t{1} << 32 | 1, purpose::augmentation, 3, 17) != one);
  CHECK(first(9, 1, purpose::test, 3, 17) != one);
  CHECK(first(9, 1, purpose::augmentation, 4, 17) != one);
  CHECK(first(9, 1, purpose::augmentation, 3, 18) != one);
  CHECK(first(9, 1, purpose::augmentation, 3, std::uint64_t{1} << 32 | 17) != one);
}

TEST_CASE("random: sequences of different purpose, a or b share no block") {
  std::multiset<std::vector<std::uint32_t>> blocks;
  for (const purpose use : {purpose::weights, purpose::shuffle, purpose::augmentation,
                            purpose::synthetic, purpose::split, purpose::test})
    for (std::uint64_t a = 0; a < 5; ++a)
      for (std::uint64_t b = 0; b < 5; ++b) blocks.insert(first(4, 1, use, a, b));
  CHECK(blocks.size() == 150);
  for (const auto& block : blocks) CHECK(blocks.count(block) == 1);
}

TEST_CASE("random: a is taken modulo 2^24 and does not change the purpose") {
  constexpr std::uint64_t wrap = std::uint64_t{1} << 24;
  CHECK(first(4, 1, purpose::shuffle, wrap + 5, 0) == first(4, 1, purpose::shuffle, 5, 0));
  CHECK(first(4, 1, purpose::weights, wrap, 0) != first(4, 1, purpose::shuffle, 0, 0));
}

TEST_CASE("random: below(n) is less than n, reaches every number, and is uniform") {
  for (const std::uint32_t n : {1u, 2u, 3u, 5u, 8u, 10u}) {
    random_sequence random(7, purpose::test, n, 0);
    std::vector<int> seen(n);
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      const std::uint32_t x = random.below(n);
      REQUIRE(x < n);
      ++seen[x];
    }
    const double expected = static_cast<double>(draws) / n;
    double chi_squared = 0;
    for (const int s : seen) chi_squared += (s - expected) * (s - expected) / expected;
    CHECK(chi_squared < 40);  // of at most 9 degrees of freedom: one seed in 130,000 would fail
  }
  // Without rejection, half of all numbers below 3 * 2^30 would be multiples of three.
  random_sequence random(7, purpose::test, 0, 0);
  int multiples = 0;
  for (int i = 0; i < 10000; ++i) multiples += random.below(3u << 30) % 3 == 0;
  CHECK(std::abs(multiples - 10000 / 3) < 5 * 47);  // five standard deviations
}

TEST_CASE("random: uniform has mean 1/2 and variance 1/12, normal mean 0 and variance 1") {
  random_sequence random(3, purpose::test, 1, 0);
  constexpr int draws = 100000;
  double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0, heads = 0;
  for (int i = 0; i < draws; ++i) {
    const double u = random.uniform(), n = random.normal();
    REQUIRE((u >= 0 && u < 1));
    REQUIRE(std::isfinite(n));
    u1 += u, u2 += u * u;
    n1 += n, n2 += n * n, n4 += n * n * n * n;
    heads += random.coin();
  }
  const auto close = [](double x, double y, double deviation) {  // within five standard errors
    return std::abs(x / draws - y) < 5 * deviation / std::sqrt(draws);
  };
  CHECK(close(u1, 1 / 2., std::sqrt(1 / 12.)));
  CHECK(close(u2, 1 / 3., std::sqrt(4 / 45.)));
  CHECK(close(n1, 0, 1));
  CHECK(close(n2, 1, std::sqrt(2)));
  CHECK(close(n4, 3, std::sqrt(96)));
  CHECK(close(heads, 0.5, 0.5));
}

TEST_CASE("random: subsequences are functions of the sequence's key and their number") {
  const random_sequence one(1, purpose::augmentation, 3, 17);
  random_sequence moved = one;
  for (int i = 0; i < 7; ++i) moved.bits();
  std::set<std::uint64_t> numbers;
  const auto first_of = [](random_sequence s) {
    const std::uint64_t high = s.bits();
    return high << 32 | s.bits();
  };
  for (std::uint32_t k = 0; k < 20; ++k) {
    CHECK(first_of(one.subsequence(k)) == first_of(moved.subsequence(k)));
    numbers.insert(first_of(one.subsequence(k)));
    for (std::uint32_t j = 0; j < 20; ++j)
      numbers.insert(first_of(one.subsequence(k).subsequence(j)));
  }
  numbers.insert(first_of(one));
  numbers.insert(first_of({1, purpose::augmentation, 3, 18}));
  numbers.insert(first_of(random_sequence(1, purpose::augmentation, 3, 18).subsequence(0)));
  CHECK(numbers.size() == 20 + 400 + 3);
}
