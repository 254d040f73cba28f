// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// power_sgd's products on an emulated GPU: those of the CPU, up to roundings, and the same bits in
// whatever order its blocks run.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/low_rank.hpp>
#include <cordee/comm/reducers/power_sgd.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/nn/parameter_list.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/low_rank.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using cordee::detail::comm::matrix_extent;

namespace {

template <class Real>
std::vector<Real> low_rank_numbers(std::size_t n, std::uint64_t which) {
  random_sequence random(7, purpose::test, which, n);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}
matrix_extent low_rank_extent(std::size_t rows, std::size_t cols, int rank) {
  segment s{"", kind::weight, 0, rows * cols};
  s.shape[0] = static_cast<int>(rows);
  return {s, rank};
}
template <class Real>
double largest_difference(const std::vector<Real>& a, const std::vector<Real>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(a[i] - b[i])));
  return worst;
}

/// What the passes make of a matrix, on a device's stream.
template <class Real>
struct low_rank_products {
  std::vector<Real> left, right, sum, outer, orthonormal, drawn;
};
template <class Real, class Stream>
low_rank_products<Real> low_rank_products_of(const matrix_extent& e, Stream s) {
  const auto x = low_rank_numbers<Real>(e.rows * e.cols, 0),
             q = low_rank_numbers<Real>(e.rank * e.cols, 1),
             p = low_rank_numbers<Real>(e.rank * e.rows, 2);
  low_rank_products<Real> out{p, q, x, x, p, q};
  for (std::size_t j = 0; j < e.cols; ++j) out.drawn[e.cols + j] = 0;  // the second column
  project_rows(e, x.data(), q.data(), out.left.data(), s);
  project_cols(e, x.data(), p.data(), out.right.data(), s);
  add_outer_product(e, x.data(), Real{-1}, p.data(), q.data(), out.sum.data(), s);
  add_outer_product(e, static_cast<const Real*>(nullptr), Real{1}, p.data(), q.data(),
                    out.outer.data(), s);
  orthonormalize(e, out.orthonormal.data(), s);
  draw_zero_columns(e, 5, 11, std::size_t{1} << 33 | 64, out.drawn.data(), s);
  return out;
}

template <class Real>
void has_the_cpus_products(std::size_t rows, std::size_t cols) {
  CAPTURE(rows);
  CAPTURE(cols);
  const matrix_extent e = low_rank_extent(rows, cols, 3);
  const auto expected = low_rank_products_of<Real>(e, cpu::stream{});
  const auto found = low_rank_products_of<Real>(e, support::emulated::stream{1});
  const double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
  // Sums of n products of normal numbers, below 16 each, whatever the order.
  const auto of = [&](std::size_t n) { return static_cast<double>(n) * 16 * epsilon; };
  CHECK(largest_difference(found.left, expected.left) <= of(cols));
  CHECK(largest_difference(found.right, expected.right) <= of(rows));
  CHECK(largest_difference(found.sum, expected.sum) <= of(4));
  CHECK(largest_difference(found.outer, expected.outer) <= of(3));
  // Of a column of norm 1, from sums in double, by two subtractions for each of two others, all
  // with the factor by which a column is shorter without them: below 100 for these numbers.
  if (rows > 3)
    CHECK(largest_difference(found.orthonormal, expected.orthonormal) <= 100 * 8 * epsilon);
  // A root, a logarithm and a cosine of doubles, rounded.
  CHECK(largest_difference(found.drawn, expected.drawn) <= 8 * epsilon);
  CHECK(found.drawn[cols] != 0);
  CHECK(found.drawn[0] == expected.drawn[0]);
  const auto again = low_rank_products_of<Real>(e, support::emulated::stream{2});
  CHECK(same_bits(again.left, found.left));
  CHECK(same_bits(again.right, found.right));
  CHECK(same_bits(again.orthonormal, found.orthonormal));
}

/// Means and residuals of a rank after some buckets: a matrix of 24 x 40, one of 3 x 3 and 5
/// numbers.
template <class D>
auto low_rank_means(int ranks, int before, int after, std::uint64_t order) {
  return support::on_ranks(ranks, [&](threads comm) {
    parameter_list list;
    list.add("matrix", {24, 40}).add("small", {3, 3}).add("vector", {5});
    const bucket layout{.offset = 0, .size = list.plane_size(), .segments = list.segments()};
    const power_sgd reducer{ring{comm}, {.rank = 2}};
    const typename D::stream s = [&] {
      if constexpr (D::host_memory)
        return cpu::stream{};
      else
        return typename D::stream{order};
    }();
    std::vector<double> error(layout.size), q(layout.size), all;
    const auto take = [&](int k) {
      auto v =
          low_rank_numbers<double>(layout.size, static_cast<std::uint64_t>(9 * k + comm.rank()));
      std::vector<std::byte> scratch(reducer.template scratch<double>(layout.size));
      const auto on = [](auto& x) { return span_on<double, D>{x.data(), x.size()}; };
      reducer.mix(
          bucket_view<double, D, 2>{
              &layout, on(v), {on(error), on(q)}, {scratch.data(), scratch.size()}},
          step_info{.step = k}, s);
      all.insert(all.end(), v.begin(), v.end());
    };
    for (int k = 0; k < before; ++k) take(k);
    std::vector<double> saved_error = error, saved_q = q;  // all that a resumed run has
    error.assign(layout.size, 1e9), q.assign(layout.size, 1e9);
    error.swap(saved_error), q.swap(saved_q);
    for (int k = before; k < before + after; ++k) take(k);
    all.insert(all.end(), error.begin(), error.end());
    return all;
  });
}

}  // namespace

TEST_CASE_TEMPLATE("low rank on a GPU, emulated: products, columns and first directions", Real,
                   EMULATED_REALS) {
  for (const std::size_t rows : {1u, 7u, 300u})
    for (const std::size_t cols : {1u, 17u, 300u}) has_the_cpus_products<Real>(rows, cols);
}

TEST_CASE("power_sgd on a GPU, emulated: means and residuals are the CPU's, alike on all ranks") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto expected = low_rank_means<cpu>(ranks, 2, 2, 0);
    const auto found = low_rank_means<support::emulated>(ranks, 2, 2, 1);
    const auto other = low_rank_means<support::emulated>(ranks, 4, 0, 2);
    for (std::size_t r = 0; r < found.size(); ++r) {
      // Four steps of sums of at most 40 products of numbers below 16; each step's residual, at
      // most as large as what was given so far, passes errors on.
      CHECK(largest_difference(found[r], expected[r]) <= 4 * 4 * 40 * 16 * 0x1p-52);
      CHECK(same_bits(found[r], other[r]));
    }
  }
}

TEST_CASE("low rank on a GPU, emulated: dependent columns become zero, NaN stays") {
  const matrix_extent e = low_rank_extent(50, 60, 4);
  auto p = low_rank_numbers<double>(200, 4);
  for (std::size_t i = 0; i < 50; ++i) p[i * 4 + 2] = p[i * 4] - 2 * p[i * 4 + 1];
  orthonormalize(e, p.data(), support::emulated::stream{1});
  for (std::size_t i = 0; i < 50; ++i) CHECK(p[i * 4 + 2] == 0);
  auto x = low_rank_numbers<double>(200, 5);
  x[8] = std::nan("");
  orthonormalize(e, x.data(), support::emulated::stream{1});
  CHECK(std::isnan(x[8]));
}
