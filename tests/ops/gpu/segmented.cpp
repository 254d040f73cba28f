// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/device_vectors.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr std::size_t arena_offset = 128;  // offset of the view in its arena

std::vector<segment> table_of(const std::vector<std::size_t>& sizes) {
  constexpr kind kinds[] = {kind::weight, kind::scale, kind::shift, kind::bias};
  std::vector<segment> table;
  std::size_t offset = arena_offset;
  for (const std::size_t n : sizes) {
    table.push_back({"s", kinds[table.size() % 4], offset, n});
    offset += detail::core::align_up(n);
  }
  return table;
}
std::size_t size_of(const std::vector<segment>& table) { return table.back().end() - arena_offset; }

// Sizes around a block's and a chunk's; empty segments first, last, adjacent, and where a part of
// the table ends.
std::vector<std::vector<segment>> tables() {
  std::vector<std::size_t> many(260);
  for (std::size_t k = 0; k < many.size(); ++k) many[k] = k % 7;
  many[199] = 4097;
  many[200] = 9000;
  many[256] = 0;
  return {table_of({0, 1, 0, 0, 7, 255, 256, 257, 4095, 4096, 4097, 3, 40000, 64, 0}),
          table_of(many),
          table_of({5}),
          table_of({0}),
          table_of({2, 18 * 4096 + 3, 1}),
          table_of(std::vector<std::size_t>(200, 2)),
          table_of(std::vector<std::size_t>(201, 3))};
}

template <class T>
span_on<T, emulated> on(std::vector<T>& x) {
  return {x.data(), x.size()};
}
template <class Real>
std::vector<Real> numbers(std::size_t n) {
  random_sequence random(1, purpose::test, 0, 0);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

/// Counts visits, and records segment and kind.
struct visits {
  int *seen, *owner, *kinds_seen;
  int k = -1;
  kind what{};

  visits for_segment(kind own, std::size_t segment) const {
    return {seen, owner, kinds_seen, static_cast<int>(segment), own};
  }
  template <class At>
  void operator()(At at) const {
    at.put(seen, at(seen) + 1);
    at.put(owner, k);
    at.put(kinds_seen, static_cast<int>(what));
  }
};

/// x <- by[k] x, and returns it; idle where by[k] is 1.
template <class Real>
struct scaling {
  Real* x;
  const double* by;
  Real own = 1;

  scaling for_segment(kind, std::size_t k) const { return {x, by, static_cast<Real>(by[k])}; }
  [[nodiscard]] bool is_idle() const { return own == 1; }
  template <class At>
  typename At::number operator()(At at) const {
    const typename At::number scaled = own * at(x);
    at.put(x, scaled);
    return scaled;
  }
};

}  // namespace

TEST_CASE(
    "segmented on a GPU, emulated: segmented_for visits every number of every segment once, and no "
    "padding") {
  for (const auto& table : tables())
    for (std::uint64_t seed = 1; seed < 5; ++seed) {
      std::vector<int> seen(size_of(table)), owner(seen), kinds_seen(seen), once(seen), of(seen),
          kinds(seen);
      for (std::size_t k = 0; k < table.size(); ++k)
        for (std::size_t i = table[k].offset - arena_offset; i < table[k].end() - arena_offset;
             ++i) {
          once[i] = 1;
          of[i] = static_cast<int>(k);
          kinds[i] = static_cast<int>(table[k].kind);
        }
      segmented_for<int>(emulated(seed).make_stream(), table,
                         visits{seen.data(), owner.data(), kinds_seen.data()});
      CHECK(seen == once);
      CHECK(owner == of);
      CHECK(kinds_seen == kinds);
    }
}

TEST_CASE_TEMPLATE(
    "segmented on a GPU, emulated: segmented_squares equals the CPU's, and has the same bits in "
    "every order of threads",
    Real, EMULATED_REALS) {
  for (const auto& table : tables()) {
    std::vector<Real> x = numbers<Real>(size_of(table));
    std::vector<double> expected(table.size()), first;
    segmented_squares<Real>(cpu::stream{}, table, {x.data(), x.size()},
                            {expected.data(), expected.size()});
    for (std::uint64_t seed = 1; seed < 3; ++seed) {
      std::vector<double> squares(table.size(), -1);
      segmented_squares<Real>(emulated(seed).make_stream(), table, on(x), on(squares));
      if (seed == 1) first = squares;
      CHECK(squares == first);
    }
    // Both sum in double, in different orders: n roundings, most of which cancel.
    for (std::size_t k = 0; k < table.size(); ++k)
      CHECK(std::abs(first[k] - expected[k]) <= 1e-14 * expected[k]);
  }
}

TEST_CASE("segmented on a GPU, emulated: more chunks than the block that adds them has threads") {
  using kernel = detail::ops::segment_squares_kernel<float, detail::ops::load_op<float>, 1>;
  const std::size_t n = (kernel::threads + 1) * kernel::chunk + 3;
  const auto table = table_of({2, n, 1});
  std::vector<float> x(size_of(table), 1);
  std::vector<double> squares(3);
  segmented_squares<float>(emulated(3).make_stream(), table, on(x), on(squares));
  CHECK(squares == std::vector<double>{2, static_cast<double>(n), 1});
}

TEST_CASE("segmented on a GPU, emulated: two planes' squares have the bits of one by one") {
  for (const auto& table : tables()) {
    std::vector<float> x = numbers<float>(size_of(table));
    std::vector<float> y = x;
    for (float& number : y) number = 3 - number;
    std::vector<double> of_x(table.size(), -1), of_y(of_x), both_x(of_x), both_y(of_x);
    const auto s = emulated(5).make_stream();
    segmented_squares<float>(s, table, on(x), on(of_x));
    segmented_squares<float>(s, table, on(y), on(of_y));
    segmented_squares<float>(s, table, on(x), on(both_x), on(y), on(both_y));
    CHECK(both_x == of_x);
    CHECK(both_y == of_y);
  }
}

TEST_CASE_TEMPLATE(
    "segmented on a GPU, emulated: a body has its segment's coefficients, and squares are of its "
    "results",
    Real, EMULATED_REALS) {
  for (const auto& table : tables()) {
    std::vector<double> by(table.size());
    for (std::size_t k = 0; k < by.size(); ++k) by[k] = 1 + static_cast<double>(k % 5) / 8;
    const std::vector<Real> before = numbers<Real>(size_of(table));
    std::vector<Real> x = before, expected = before, y = before;
    segmented_for<Real>(emulated(2).make_stream(), table, scaling<Real>{x.data(), by.data()});
    segmented_for<Real>(cpu(2).make_stream(), table, scaling<Real>{expected.data(), by.data()});
    CHECK(x == expected);
    std::vector<double> returned(table.size(), -1), written(returned);
    segmented_squares<Real>(emulated(3).make_stream(), table, scaling<Real>{y.data(), by.data()},
                            on(returned));
    segmented_squares<Real>(emulated(4).make_stream(), table, on(y), on(written));
    CHECK(y == expected);
    // In double, by chunks of other lengths.
    CHECK(max_error_ratio(returned, written, 1e-14, 0) <= 1);
  }
}

TEST_CASE("segmented on a GPU, emulated: a number that is not finite affects its segment alone") {
  const auto table = table_of({20, 5, 30});
  for (const float nonfinite :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const std::size_t at : {64u, 66u, 68u}) {
      std::vector<float> x(size_of(table), 1);
      x[at] = nonfinite;
      std::vector<double> squares(3);
      segmented_squares<float>(emulated{}.make_stream(), table, on(x), on(squares));
      CHECK(squares[0] == 20);
      CHECK_FALSE(std::isfinite(squares[1]));
      CHECK(squares[2] == 30);
    }
}

TEST_CASE(
    "segmented on a GPU, emulated: sums of squares are finite where the squares overflow fp32") {
  std::vector<float> x{3e38f, 3e38f};
  std::vector<double> squares(1);
  segmented_squares<float>(emulated{}.make_stream(), table_of({2}), on(x), on(squares));
  CHECK(squares[0] == 2 * std::pow(static_cast<double>(3e38f), 2));
}

TEST_CASE(
    "segmented on a GPU, emulated: an empty table is allowed; fewer sums than segments are a usage "
    "error") {
  std::vector<double> one(1);
  std::vector<float> x(size_of(table_of({1, 1})));
  segmented_for<int>(emulated{}.make_stream(), {}, visits{});
  segmented_squares<float>(emulated{}.make_stream(), {}, on(x), on(one));
  CHECK(one[0] == 0);
  CHECK_THROWS_AS(
      segmented_squares<float>(emulated{}.make_stream(), table_of({1, 1}), on(x), on(one)),
      usage_error);
  std::vector<double> two(2);
  CHECK_THROWS_AS(segmented_squares<float>(emulated{}.make_stream(), table_of({1, 1}), on(x),
                                           on(two), on(x), on(one)),
                  usage_error);
}
