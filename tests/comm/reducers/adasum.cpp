// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/adasum.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using namespace support;

namespace {

using vector = std::vector<double>;

// The definition, in long double.
vector pair(const vector& a, const vector& b) {
  long double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    aa += static_cast<long double>(a[i]) * a[i], bb += static_cast<long double>(b[i]) * b[i],
        ab += static_cast<long double>(a[i]) * b[i];
  vector out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    out[i] = static_cast<double>((aa > 0 ? 1 - ab / (2 * aa) : 1) * a[i] +
                                 (bb > 0 ? 1 - ab / (2 * bb) : 1) * b[i]);
  return out;
}
// The tree over ranks: first pairs of the ranks beyond a power of two, then neighbors.
vector tree_of(std::vector<vector> x) {
  std::size_t power = 1;
  while (2 * power <= x.size()) power *= 2;
  const std::size_t extra = x.size() - power;
  std::vector<vector> level;
  for (std::size_t k = 0; k < extra; ++k) level.push_back(pair(x[2 * k], x[2 * k + 1]));
  for (std::size_t k = 2 * extra; k < x.size(); ++k) level.push_back(x[k]);
  while (level.size() > 1) {
    std::vector<vector> next;
    for (std::size_t k = 0; k < level.size(); k += 2) next.push_back(pair(level[k], level[k + 1]));
    level = next;
  }
  return level[0];
}

// What each rank has of its x, with the messages that it sent.
template <class Real>
std::deque<std::vector<Real>> mixed(const std::vector<std::vector<Real>>& x,
                                    const bucket* layout = nullptr) {
  return on_ranks(static_cast<int>(x.size()), [&](threads comm) {
    std::vector<Real> own = x[static_cast<std::size_t>(comm.rank())];
    std::vector<std::byte> scratch(own.size() * sizeof(Real));
    adasum{comm}.mix(
        bucket_view<Real, cpu, 0>{
            layout, {own.data(), own.size()}, {}, {scratch.data(), scratch.size()}},
        step_info{}, cpu::stream{});
    return own;
  });
}

std::vector<vector> noise(int ranks, std::size_t n) {
  std::vector<vector> x(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < x.size(); ++r) {
    random_sequence random(3, purpose::test, r, n);
    for (std::size_t i = 0; i < n; ++i) x[r].push_back(1 + random.normal());
  }
  return x;
}

}  // namespace

TEST_CASE("adasum: golden, and the same whichever comes first") {
  CHECK(mixed<double>({{1, 2}, {2, 0}})[0] == vector{2.3, 1.6});
  CHECK(mixed<double>({{2, 0}, {1, 2}})[1] == vector{2.3, 1.6});
}

TEST_CASE("adasum: orthogonal vectors are added, equal ones stay, zeros change nothing") {
  for (const int ranks : {1, 2, 3, 4, 5, 8, 16}) {
    CAPTURE(ranks);
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<vector> units(p, vector(p)), same(p, vector{1, -2, 0.5}), zeros(p, vector(3));
    for (std::size_t r = 0; r < p; ++r) units[r][r] = static_cast<double>(r) + 1;
    vector sum(p);
    for (std::size_t r = 0; r < p; ++r) sum[r] = static_cast<double>(r) + 1;
    for (const vector& v : mixed(units)) CHECK(v == sum);
    for (const vector& v : mixed(same)) CHECK(v == same[0]);
    zeros[p / 2] = {1, 2, 3};
    for (const vector& v : mixed(zeros)) CHECK(v == zeros[p / 2]);
  }
}

TEST_CASE("adasum: the tree of the ranks, with the same bits on all, for any number of both") {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16})
    for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 1000u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      const auto x = noise(ranks, n);
      const auto by_rank = mixed(x);
      const vector expected = tree_of(x);
      for (const vector& v : by_rank) {
        CHECK(same_bits(v, by_rank[0]));
        // Four levels of sums of n products and two roundings, of numbers up to about 5 p.
        for (std::size_t i = 0; i < n; ++i) CHECK(std::abs(v[i] - expected[i]) < 1e-12);
      }
    }
}

TEST_CASE("adasum: each tensor of a bucket by itself") {
  const std::vector<segment> table{{"a", kind::weight, 64, 3}, {"b", kind::weight, 128, 2}};
  const bucket both{.offset = 64, .size = 66, .segments = table};
  std::vector<vector> x(2, vector(66));
  for (std::size_t r = 0; r < 2; ++r) {
    const auto part = noise(2, 5)[r];
    std::copy_n(part.begin(), 3, x[r].begin());
    std::copy_n(part.begin() + 3, 2, x[r].begin() + 64);
  }
  const auto part_of = [](const vector& v, std::size_t first, std::size_t n) {
    return vector(v.begin() + static_cast<std::ptrdiff_t>(first),
                  v.begin() + static_cast<std::ptrdiff_t>(first + n));
  };
  const auto out = mixed(x, &both);
  for (const auto& [first, n] : {std::pair<std::size_t, std::size_t>{0, 3}, {64, 2}}) {
    const vector expected = pair(part_of(x[0], first, n), part_of(x[1], first, n));
    for (std::size_t i = 0; i < n; ++i) CHECK(out[1][first + i] == relative(expected[i], 1e-14));
  }
}

TEST_CASE("adasum: a NaN of one rank is one on every rank; scales with its vectors") {
  for (const int ranks : {2, 3, 5, 8}) {
    auto x = noise(ranks, 10);
    const auto before = mixed(x);
    for (vector& v : x)
      for (double& number : v) number *= 8;
    for (std::size_t i = 0; i < 10; ++i) CHECK(mixed(x)[0][i] == 8 * before[0][i]);
    x[1][3] = std::numeric_limits<double>::quiet_NaN();
    for (const vector& v : mixed(x)) CHECK(std::isnan(v[3]));
  }
}

TEST_CASE("adasum: log2 p messages of the whole vector, two hops more outside powers of two") {
  for (const int ranks : {1, 2, 3, 5, 8, 12})
    for (const auto& [rank, sent] : on_ranks(ranks, [](threads comm) {
           traffic t;
           std::vector<float> x(10);
           std::vector<std::byte> scratch(40);
           adasum{counting_communicator{comm, &t}}.mix(
               bucket_view<float, cpu, 0>{nullptr, {x.data(), 10}, {}, {scratch.data(), 40}},
               step_info{}, cpu::stream{});
           return std::pair(comm.rank(), t);
         })) {
      CHECK(sent.messages == remapped_messages(rank, ranks, log2_below(ranks)));
      CHECK(sent.bytes == 40 * sent.messages);
    }
}

TEST_CASE("adasum: describes itself") {
  CHECK(on_ranks(2, [](threads comm) { return adasum{comm}.describe(); })[0] ==
        "Adasum over 2 ranks, tensor by tensor");
}
