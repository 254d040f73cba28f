// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/segmented.hpp>

using namespace cordee;

namespace {

// Sizes around the chunk, an empty segment, and one that begins in the middle of an arena.
std::vector<segment> table_of(const std::vector<std::size_t>& sizes, std::size_t start = 128) {
  std::vector<segment> table;
  for (const std::size_t n : sizes) {
    table.push_back({"s", kind::weight, start, n});
    start += aligned(n);
  }
  return table;
}
const std::vector<std::size_t> sizes{1, 0, 7, 16383, 16384, 16385, 64, 40000, 3};

/// Counts visits, and says whose they were.
struct visits {
  int *seen, *owner;
  int k = -1;

  visits of(kind, std::size_t segment) const { return {seen, owner, static_cast<int>(segment)}; }
  template <class At>
  void operator()(At at) const {
    at.put(seen, at(seen) + 1);
    at.put(owner, typename At::number{} + k);
  }
};

/// x <- by x, weights and biases alone; returns what it wrote.
template <class Real>
struct scaling {
  Real* x;
  Real by;

  scaling of(kind what, std::size_t) const { return {x, what == kind::scale ? Real{1} : by}; }
  [[nodiscard]] bool idle() const { return by == 1; }
  template <class At>
  typename At::number operator()(At at) const {
    const typename At::number scaled = by * at(x);
    at.put(x, scaled);
    return scaled;
  }
};

}  // namespace

TEST_CASE("segments: workers share the numbers evenly, however many small segments come first") {
  std::vector<std::size_t> sizes(60, 16);
  sizes.push_back(30 * detail::chunk_size);
  const std::vector<segment> table = table_of(sizes);
  const cpu device(2);
  std::mutex one_at_a_time;
  std::map<std::thread::id, std::size_t> done;
  detail::for_each_chunk(device.open(), table,
                         [&](std::size_t, std::size_t, std::size_t first, std::size_t last) {
                           const std::scoped_lock lock(one_at_a_time);
                           done[std::this_thread::get_id()] += last - first;
                         });
  REQUIRE(done.size() == 2);
  for (const auto& [who, numbers] : done) CHECK(numbers <= 16 * detail::chunk_size);
}

TEST_CASE("segmented_for visits every number of every segment once, and no padding") {
  for (const int workers : {1, 2, 3, 5}) {
    const cpu device(workers);
    const auto table = table_of(sizes);
    std::vector<int> seen(table.back().end() - table.front().offset), owner = seen;
    segmented_for<int>(device.open(), table, visits{seen.data(), owner.data()});
    std::size_t visited = 0;
    for (std::size_t k = 0; k < table.size(); ++k)
      for (std::size_t i = table[k].offset; i < table[k].end(); ++i, ++visited) {
        REQUIRE(seen[i - 128] == 1);
        REQUIRE(owner[i - 128] == static_cast<int>(k));
      }
    std::size_t total = 0;
    for (const int n : seen) total += static_cast<std::size_t>(n);
    CHECK(total == visited);
  }
}

TEST_CASE_TEMPLATE("segmented_squares: the same bits for any number of workers, and right", Real,
                   float, double) {
  const auto table = table_of(sizes);
  std::vector<Real> x(table.back().end() - 128);
  random_sequence random(1, purpose::test, 0, 0);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  std::vector<double> first(table.size());
  for (const int workers : {1, 2, 3, 5}) {
    std::vector<double> squares(table.size(), -1);
    segmented_squares<Real>(cpu(workers).open(), table, {x.data(), x.size()},
                            {squares.data(), squares.size()});
    if (workers == 1) first = squares;
    CHECK(squares == first);
  }
  for (std::size_t k = 0; k < table.size(); ++k) {
    double expected = 0;
    for (std::size_t i = table[k].offset; i < table[k].end(); ++i)
      expected += static_cast<double>(x[i - 128]) * static_cast<double>(x[i - 128]);
    CHECK(std::abs(first[k] - expected) <= 1e-12 * std::max(1.0, expected));
  }
}

TEST_CASE("segmented_squares: what is not finite is seen in its own segment and nowhere else") {
  const auto table = table_of({20, 5, 30}, 0);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const std::size_t at : {64u, 66u, 68u}) {
      std::vector<float> x(table.back().end(), 1);
      x[at] = bad;
      std::vector<double> squares(3);
      segmented_squares<float>(cpu::stream{}, table, {x.data(), x.size()}, {squares.data(), 3});
      CHECK(squares[0] == 20);
      CHECK_FALSE(std::isfinite(squares[1]));
      CHECK(squares[2] == 30);
    }
}

TEST_CASE("FP32 values whose squares overflow FP32 are still finite in the sum") {
  const auto table = table_of({2}, 0);
  std::vector<float> x{3e38f, 3e38f};
  std::vector<double> squares(1);
  segmented_squares<float>(cpu::stream{}, table, {x.data(), 2}, {squares.data(), 1});
  CHECK(std::isfinite(squares[0]));
}

TEST_CASE_TEMPLATE("a segment gets the arithmetic of its kind and place; an idle one is left alone",
                   Real, float, double) {
  auto table = table_of({100, 40, 100}, 0);
  table[1].what = kind::scale;
  std::vector<Real> x(table.back().end(), 3);
  x[150] = std::numeric_limits<Real>::quiet_NaN();  // beyond 40: no number of any segment
  segmented_for<Real>(cpu(2).open(), table, scaling<Real>{x.data(), 2});
  CHECK(x[0] == 6);
  CHECK(x[99] == 6);
  CHECK(x[100] == 3);
  CHECK(x[table[1].offset] == 3);
  CHECK(x[table[2].end() - 1] == 6);
  segmented_for<Real>(cpu(2).open(), table, [p = x.data()](auto at) { at.put(p, at(p) + at(p)); });
  CHECK(x[0] == 12);
  CHECK(x[table[1].offset] == 6);
}

TEST_CASE_TEMPLATE("the squares of what a body returns are those of what it wrote, to the bit",
                   Real, float, double) {
  auto table = table_of(sizes);
  table[5].what = kind::scale;
  std::vector<Real> x(table.back().end() - 128);
  random_sequence random(2, purpose::test, 0, 0);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  for (const int workers : {1, 3}) {
    std::vector<double> said(table.size(), -1), written(said);
    const cpu device(workers);
    segmented_squares<Real>(device.open(), table, scaling<Real>{x.data(), Real(1.1)},
                            {said.data(), said.size()});
    segmented_squares<Real>(device.open(), table, {x.data(), x.size()},
                            {written.data(), written.size()});
    CHECK(said == written);
  }
}

TEST_CASE("an empty table is a pass over nothing, and each segment needs room for its sum") {
  segmented_for<float>(cpu::stream{}, {}, [](auto) { FAIL("called"); });
  segmented_squares<float>(cpu::stream{}, {}, {}, {});
  const auto table = table_of({1, 1}, 0);
  std::vector<float> x(table.back().end());
  double one = 0;
  CHECK_THROWS_AS(segmented_squares<float>(cpu::stream{}, table, {x.data(), x.size()}, {&one, 1}),
                  misuse);
}
