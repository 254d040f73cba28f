// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// wgrad by tiles, on the unit in plain C++: the bits of a plain loop in the stated order of sums,
// and what the kernel asks of the unit for layers of residual networks.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/weight_gradient.hpp>

#include "tests/ops/engines/amx/tested_unit.hpp"
#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// x (N, C, H, W) and dy (N, K, H', W').
struct operands {
  convolution_problem p;
  int samples;
  std::vector<double> x = random_numbers<bfloat>(size(samples) * p.in.size(), 1),
                      dy = random_numbers<bfloat>(size(samples) * p.out().size(), 2);

  [[nodiscard]] float x_at(int n, int c, int h, int l) const {
    if (n >= samples || h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) return 0;
    return static_cast<float>(
        x[size(((n * p.in.channels + c) * p.in.height + h) * p.in.width + l)]);
  }
  [[nodiscard]] float dy_at(int n, int k, int i, int j) const {
    const extent out = p.out();
    if (n >= samples || j >= out.width) return 0;
    return static_cast<float>(dy[size(((n * p.filters + k) * out.height + i) * out.width + j)]);
  }
};

/// dw (K, C, R, S), added to `before` unless it is empty.
std::vector<double> gradient(const amx_gradient_plan& plan, const operands& o,
                             const std::vector<double>& before = {}, cpu::stream s = {}) {
  const convolution_problem& p = plan.layer;
  const auto x = nchw_to_blocked<bfloat>(o.x, p.in, o.samples, tile_block_size(p.in.channels)),
             dy = nchw_to_blocked<bfloat>(o.dy, p.out(), o.samples, tile_block_size(p.filters));
  std::vector<float> dw(before.begin(), before.end()),
      workspace(plan.workspace(), std::numeric_limits<float>::quiet_NaN());
  dw.resize(p.weights(), 99);
  amx_weight_gradient<tested_unit>(plan).run(
      x.data(), dy.data(), dw.data(), before.empty() ? write_mode::overwrite : write_mode::add,
      workspace.data(), s);
  return {dw.begin(), dw.end()};
}

/// f(k, c, r, s) for each weight.
template <class F>
std::vector<double> for_each_weight(const convolution_problem& p, const F& f) {
  std::vector<double> dw;
  for (int k = 0; k < p.filters; ++k)
    for (int c = 0; c < p.in.channels; ++c)
      for (int r = 0; r < p.window; ++r)
        for (int s = 0; s < p.window; ++s) dw.push_back(f(k, c, r, s));
  return dw;
}

/// The sums of ops/engines/amx/bf16/weight_gradient.hpp in the order that it states.
std::vector<double> in_stated_order(const amx_gradient_plan& plan, const operands& o) {
  const convolution_problem& p = plan.layer;
  return for_each_weight(p, [&](int k, int c, int r, int s) {
    float dw = 0;
    for (int group = 0; group < plan.groups; ++group) {
      float sum = 0;
      plan.for_each_chunk(group, [&](const amx_gradient_plan::chunk& chunk) {
        for (int step = 0; step < plan.steps(chunk); ++step) {
          float chain[2] = {};
          for (int q = 16 * step; q < 16 * (step + 1); ++q) {
            const int row = q / plan.pitch, j = q % plan.pitch;
            if (row >= chunk.rows * chunk.pairs) break;
            const int i = chunk.first_row + row / chunk.pairs,
                      pair = chunk.first_pair + row % chunk.pairs;
            for (const int half : {0, 1})
              chain[half] = std::fma(o.dy_at(2 * pair + half, k, i, j),
                                     o.x_at(2 * pair + half, c, i * p.stride + r - p.padding,
                                            j * p.stride + s - p.padding),
                                     chain[half]);
          }
          sum += chain[0] + chain[1];
        }
      });
      dw = group == 0 ? sum : dw + sum;
    }
    return dw;
  });
}

/// Bit for bit, with both kinds of planes, in both write modes.
void check(const convolution_problem& p, int samples) {
  CAPTURE(describe(p));
  CAPTURE(samples);
  const operands o{p, samples};
  const std::vector<double> before = random_numbers(p.weights(), 3);
  for (const bool column_copies : {false, true}) {
    CAPTURE(column_copies);
    const amx_gradient_plan plan = plan_amx_gradient(p, samples, column_copies);
    const std::vector<double> expected = in_stated_order(plan, o);
    CHECK(gradient(plan, o) == expected);
    std::vector<double> added = before;
    for (std::size_t i = 0; i < added.size(); ++i)
      added[i] = static_cast<float>(before[i]) + static_cast<float>(expected[i]);
    CHECK(gradient(plan, o, before) == added);
  }
}

/// What is asked of a unit; it computes nothing.
struct unit_counts {
  double products, operands, sums;  // tiles
} counts;
class counting_unit {
 public:
  explicit counting_unit(const tile_shapes&) {}
  counting_unit(const counting_unit&) = delete;
  counting_unit& operator=(const counting_unit&) = delete;
  template <int>
  void zero() {}
  template <int T>
  void load(const void*, std::ptrdiff_t) {
    ++(T < 4 ? counts.sums : counts.operands);
  }
  template <int>
  void store(void*, std::ptrdiff_t) {
    ++counts.sums;
  }
  template <int, int, int>
  void add_bf16() {
    ++counts.products;
  }
  template <int, int, int>
  void add_bytes() {}
};

/// Of a layer with 8 samples: the least useful share of products, and the most loads of operands
/// and transfers of sums for each product.
struct floors {
  convolution_problem layer;
  double useful, operands, sums;
};
constexpr floors layers[] = {
    {{{3, 224, 224}, 64, 7, 2, 3}, 0.64, 1.00, 0.21},
    {{{64, 56, 56}, 64, 1, 1, 0}, 0.99, 1.00, 0.20},
    {{{64, 56, 56}, 64, 3, 1, 1}, 0.97, 1.00, 0.21},
    {{{256, 56, 56}, 128, 1, 1, 0}, 0.99, 1.00, 0.24},
    {{{128, 56, 56}, 128, 3, 2, 1}, 0.95, 1.00, 0.25},
    {{{128, 28, 28}, 512, 1, 1, 0}, 0.99, 1.00, 0.23},
    {{{256, 56, 56}, 512, 1, 2, 0}, 0.99, 1.00, 0.23},
    {{{128, 28, 28}, 128, 3, 1, 1}, 0.95, 1.00, 0.22},
    {{{256, 28, 28}, 256, 3, 2, 1}, 0.90, 1.00, 0.28},
    {{{1024, 14, 14}, 256, 1, 1, 0}, 0.93, 1.00, 0.25},
    {{{256, 14, 14}, 256, 3, 1, 1}, 0.90, 1.00, 0.21},
    {{{512, 14, 14}, 512, 3, 2, 1}, 0.87, 1.00, 0.25},
    {{{2048, 7, 7}, 512, 1, 1, 0}, 0.87, 1.00, 0.25},
    {{{512, 7, 7}, 512, 3, 1, 1}, 0.87, 1.00, 0.25},
    {{{3, 32, 32}, 16, 3, 1, 1}, 0.54, 1.34, 0.22},
    {{{16, 32, 32}, 16, 3, 1, 1}, 0.96, 1.34, 0.22},
    {{{16, 32, 32}, 32, 3, 2, 1}, 0.88, 1.06, 0.20},
    {{{16, 32, 32}, 32, 1, 2, 0}, 0.99, 1.50, 0.20},
    {{{32, 16, 16}, 32, 3, 1, 1}, 0.88, 1.00, 0.20},
    {{{32, 16, 16}, 64, 3, 2, 1}, 0.79, 1.00, 0.26},
    {{{64, 8, 8}, 64, 3, 1, 1}, 0.80, 1.00, 0.21},
};

}  // namespace

TEST_CASE("amx_weight_gradient: every window, stride and padding, in the stated order of sums" *
          doctest::skip(!has_tested_unit())) {
  for (const int channels : {3, 5})
    for (const int window : {1, 3, 5, 7})
      for (const int stride : {1, 2, 3})
        for (int padding = 0; padding < window; ++padding)
          check({{channels, 7, 9}, 3, window, stride, padding}, 1 + (window + padding) % 3);
}

TEST_CASE("amx_weight_gradient: channels and filters of full and partial blocks" *
          doctest::skip(!has_tested_unit())) {
  constexpr int some[] = {1, 3, 10, 16, 31, 32, 33, 48, 64, 96};
  for (const int channels : some)
    for (const int filters : some) check({{channels, 3, 5}, filters, 1, 1, 0}, 2);
  for (std::size_t i = 0; i < std::size(some); ++i)
    check({{some[i], 3, 2}, some[(i + 3) % std::size(some)], 3, 1, 1}, 1);
}

TEST_CASE("amx_weight_gradient: groups, several pairs at once, bands and parts" *
          doctest::skip(!has_tested_unit())) {
  for (const int samples : {0, 1, 2, 3, 5, 17, 34}) check({{5, 3, 3}, 5, 3, 1, 1}, samples);
  for (const convolution_problem& p : {convolution_problem{{16, 1, 1}, 16, 3, 1, 1},
                                       {{3, 13, 11}, 33, 7, 2, 3},
                                       {{2, 1, 1}, 17, 3, 2, 1},
                                       {{17, 7, 9}, 65, 3, 3, 1},
                                       {{16, 9, 9}, 16, 2, 3, 0}})
    check(p, 3);
  const convolution_problem rows{{5, 16, 3}, 5, 3, 1, 1};
  CHECK(plan_amx_gradient(rows, 4).row_groups == 4);
  check(rows, 4);
  check(rows, 5);
  const convolution_problem tall{{5, 150, 84}, 2, 3, 1, 1};
  CHECK(plan_amx_gradient(tall, 1, false).rows_at_once < 150);
  check(tall, 1);
}

TEST_CASE("amx_weight_gradient: what earlier layers left in a thread's memory is not read" *
          doctest::skip(!has_tested_unit())) {
  operands o{{{32, 9, 9}, 32, 5, 1, 2}, 4};
  std::fill(o.x.begin(), o.x.end(), std::numeric_limits<double>::quiet_NaN());
  o.dy = o.x;
  gradient(plan_amx_gradient(o.p, 4), o);
  check({{33, 5, 3}, 33, 3, 1, 1}, 3);
  check({{3, 5, 3}, 5, 3, 2, 1}, 1);
}

TEST_CASE("amx_weight_gradient: the number of workers does not change a bit" *
          doctest::skip(!has_tested_unit())) {
  const convolution_problem p{{33, 5, 4}, 40, 3, 1, 1};
  for (const int samples : {2, 11}) {
    const operands o{p, samples};
    const amx_gradient_plan plan = plan_amx_gradient(p, samples);
    const std::vector<double> alone = gradient(plan, o);
    for (const int workers : {2, 3}) {
      const cpu device(workers);
      CHECK(gradient(plan, o, {}, device.make_stream()) == alone);
    }
  }
}

TEST_CASE("amx_weight_gradient: errors are those of short chains, not of sums one by one" *
          doctest::skip(!has_tested_unit())) {
  const operands o{{{16, 14, 14}, 16, 3, 1, 1}, 8};
  const amx_gradient_plan plan = plan_amx_gradient(o.p, o.samples);
  std::vector<double> exact(o.p.weights()), magnitude = exact;
  std::vector<float> one_by_one(o.p.weights());
  for_each_product(o.p, o.samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    exact[iw] += o.x[ix] * o.dy[iy];
    magnitude[iw] += std::abs(o.x[ix] * o.dy[iy]);
    one_by_one[iw] += static_cast<float>(o.x[ix] * o.dy[iy]);  // the product is exact
  });
  // A term is rounded in its chain, by the sum of both chains, in each later step, and in each
  // later group.
  int steps = 0;
  plan.for_each_chunk(0, [&](const amx_gradient_plan::chunk& c) { steps += plan.steps(c); });
  const double roundings = 16 + 1 + steps + plan.groups, unit_roundoff = 0x1p-24;
  const std::vector<double> dw = gradient(plan, o);
  double squares = 0, squares_one_by_one = 0;
  for (std::size_t i = 0; i < dw.size(); ++i) {
    const double error = dw[i] - exact[i];
    CHECK(std::abs(error) <=
          roundings / (1 - roundings * unit_roundoff) * unit_roundoff * magnitude[i]);
    squares += error * error;
    squares_one_by_one += std::pow(one_by_one[i] - exact[i], 2);
  }
  CHECK(squares <= 0.25 * squares_one_by_one);
}

TEST_CASE("amx_weight_gradient: tiles that the layers of residual networks ask for" *
          doctest::skip(!has_tested_unit())) {
  for (const floors& f : layers) {
    const convolution_problem& p = f.layer;
    const amx_weight_gradient<counting_unit> gradient(p, 8);
    const std::vector<bfloat> x(8 * sample_size(p.in, tile_block_size(p.in.channels))),
        dy(8 * sample_size(p.out(), tile_block_size(p.filters)));
    std::vector<float> dw(p.weights()), workspace(gradient.plan().workspace());
    counts = {};
    gradient.run(x.data(), dy.data(), dw.data(), write_mode::overwrite, workspace.data(), {});
    CAPTURE(describe(p));
    CHECK(static_cast<double>(p.macs()) * 8 / (16 * 16 * 32) >= f.useful * counts.products);
    CHECK(counts.operands <= f.operands * counts.products);
    CHECK(counts.sums <= f.sums * counts.products);
  }
}
