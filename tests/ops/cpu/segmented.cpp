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
#include <cordee/ops/cpu/segmented.hpp>

using namespace cordee;

namespace {

// Sizes around the chunk, an empty segment, and one that begins in the middle of an arena.
std::vector<segment> table_of(const std::vector<std::size_t>& sizes, std::size_t start = 128) {
  std::vector<segment> table;
  for (const std::size_t n : sizes) {
    table.push_back({"s", kind::weight, start, n});
    start += detail::core::align_up(n);
  }
  return table;
}
const std::vector<std::size_t> sizes{1, 0, 7, 16383, 16384, 16385, 64, 40000, 3};

/// Counts the visits of every number, and records its segment.
struct visits {
  int *count, *segment;
  int k = -1;

  visits for_segment(kind, std::size_t index) const {
    return {count, segment, static_cast<int>(index)};
  }
  template <class At>
  void operator()(At at) const {
    at.put(count, at(count) + 1);
    at.put(segment, typename At::number{} + k);
  }
};

/// x <- factor x, but not of scales; returns what it wrote.
template <class Real>
struct scaling {
  Real* x;
  Real factor;

  scaling for_segment(kind what, std::size_t) const {
    return {x, what == kind::scale ? Real{1} : factor};
  }
  [[nodiscard]] bool is_idle() const { return factor == 1; }
  template <class At>
  typename At::number operator()(At at) const {
    const typename At::number scaled = factor * at(x);
    at.put(x, scaled);
    return scaled;
  }
};

}  // namespace

TEST_CASE("for_each_chunk: workers share the numbers evenly, also with many small segments first") {
  std::vector<std::size_t> sizes(60, 16);
  sizes.push_back(30 * detail::ops::chunk_size);
  const std::vector<segment> table = table_of(sizes);
  const cpu device(2);
  std::mutex mutex;
  std::map<std::thread::id, std::size_t> numbers_of;
  detail::ops::for_each_chunk(device.make_stream(), table,
                              [&](std::size_t, std::size_t, std::size_t first, std::size_t last) {
                                const std::scoped_lock lock(mutex);
                                numbers_of[std::this_thread::get_id()] += last - first;
                              });
  REQUIRE(numbers_of.size() == 2);
  for (const auto& [thread, numbers] : numbers_of) CHECK(numbers <= 16 * detail::ops::chunk_size);
}

TEST_CASE("segmented_for: visits every number of every segment once, and no padding") {
  for (const int workers : {1, 2, 3, 5}) {
    const cpu device(workers);
    const auto table = table_of(sizes);
    std::vector<int> count(table.back().end() - table.front().offset), segment = count;
    segmented_for<int>(device.make_stream(), table, visits{count.data(), segment.data()});
    std::size_t visited = 0;
    for (std::size_t k = 0; k < table.size(); ++k)
      for (std::size_t i = table[k].offset; i < table[k].end(); ++i, ++visited) {
        REQUIRE(count[i - 128] == 1);
        REQUIRE(segment[i - 128] == static_cast<int>(k));
      }
    std::size_t total = 0;
    for (const int n : count) total += static_cast<std::size_t>(n);
    CHECK(total == visited);
  }
}

TEST_CASE_TEMPLATE(
    "segmented_squares: the sums of squares, with the same bits for any number of workers", Real,
    float, double) {
  const auto table = table_of(sizes);
  std::vector<Real> x(table.back().end() - 128);
  random_sequence random(1, purpose::test, 0, 0);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  std::vector<double> first(table.size());
  for (const int workers : {1, 2, 3, 5}) {
    std::vector<double> squares(table.size(), -1);
    segmented_squares<Real>(cpu(workers).make_stream(), table, {x.data(), x.size()},
                            {squares.data(), squares.size()});
    if (workers == 1) first = squares;
    CHECK(squares == first);
    std::vector<Real> y(x.rbegin(), x.rend());
    std::vector<double> of_y(table.size(), -1), of_both(of_y);
    const cpu device(workers);
    const auto s = device.make_stream();
    segmented_squares<Real>(s, table, {y.data(), y.size()}, {of_y.data(), of_y.size()});
    segmented_squares<Real>(s, table, {x.data(), x.size()}, {squares.data(), squares.size()},
                            {y.data(), y.size()}, {of_both.data(), of_both.size()});
    CHECK(squares == first);
    CHECK(of_both == of_y);
  }
  for (std::size_t k = 0; k < table.size(); ++k) {
    double expected = 0;
    for (std::size_t i = table[k].offset; i < table[k].end(); ++i)
      expected += static_cast<double>(x[i - 128]) * static_cast<double>(x[i - 128]);
    CHECK(std::abs(first[k] - expected) <= 1e-12 * std::max(1.0, expected));
  }
}

TEST_CASE("segmented_squares: a number that is not finite affects its own segment only") {
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

TEST_CASE("segmented_squares: FP32 values whose squares overflow FP32 have a finite sum") {
  const auto table = table_of({2}, 0);
  std::vector<float> x{3e38f, 3e38f};
  std::vector<double> squares(1);
  segmented_squares<float>(cpu::stream{}, table, {x.data(), 2}, {squares.data(), 1});
  CHECK(std::isfinite(squares[0]));
}

TEST_CASE_TEMPLATE("segmented_for: a segment gets the body of its kind; an idle one is not visited",
                   Real, float, double) {
  auto table = table_of({100, 40, 100}, 0);
  table[1].kind = kind::scale;
  std::vector<Real> x(table.back().end(), 3);
  x[150] = std::numeric_limits<Real>::quiet_NaN();  // beyond 40: no number of any segment
  segmented_for<Real>(cpu(2).make_stream(), table, scaling<Real>{x.data(), 2});
  CHECK(x[0] == 6);
  CHECK(x[99] == 6);
  CHECK(x[100] == 3);
  CHECK(x[table[1].offset] == 3);
  CHECK(x[table[2].end() - 1] == 6);
  segmented_for<Real>(cpu(2).make_stream(), table,
                      [p = x.data()](auto at) { at.put(p, at(p) + at(p)); });
  CHECK(x[0] == 12);
  CHECK(x[table[1].offset] == 6);
}

TEST_CASE_TEMPLATE(
    "segmented_squares: the squares of what a body returns equal those of what it wrote, bit for "
    "bit",
    Real, float, double) {
  auto table = table_of(sizes);
  table[5].kind = kind::scale;
  std::vector<Real> x(table.back().end() - 128);
  random_sequence random(2, purpose::test, 0, 0);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  for (const int workers : {1, 3}) {
    std::vector<double> returned(table.size(), -1), written(returned);
    const cpu device(workers);
    segmented_squares<Real>(device.make_stream(), table, scaling<Real>{x.data(), Real(1.1)},
                            {returned.data(), returned.size()});
    segmented_squares<Real>(device.make_stream(), table, {x.data(), x.size()},
                            {written.data(), written.size()});
    CHECK(returned == written);
  }
}

TEST_CASE("segmented passes: an empty table is no work; too little room for the sums throws") {
  segmented_for<float>(cpu::stream{}, {}, [](auto) { FAIL("called"); });
  segmented_squares<float>(cpu::stream{}, {}, {}, {});
  const auto table = table_of({1, 1}, 0);
  std::vector<float> x(table.back().end());
  double sum = 0;
  CHECK_THROWS_AS(segmented_squares<float>(cpu::stream{}, table, {x.data(), x.size()}, {&sum, 1}),
                  usage_error);
}
