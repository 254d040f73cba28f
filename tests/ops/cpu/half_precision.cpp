// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over numbers of 16 bits are the same passes over floats, whose results are rounded once
// where they are stored.
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/cross_entropy.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/linear.hpp>
#include <cordee/ops/cpu/loss.hpp>
#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/half_tensor.hpp"
#include "tests/support/numbers.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

TEST_CASE_TEMPLATE("half precision: elementwise passes round a float's result once", N, half,
                   bfloat) {
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 4097u}) {
    half_tensor<N> x(n, 1), y(n, 2);
    add<N>(n, x.stored.data(), y.stored.data(), {});
    add<float>(n, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_rounded_float(y.stored, y.wide_copy));

    std::vector<N> converted(n);
    const auto masters = normal_numbers<float>(n, 3);
    convert(n, masters.data(), converted.data(), cpu::stream{});
    for (std::size_t i = 0; i < n; ++i) CHECK(converted[i].bits == N::nearest(masters[i]).bits);

    y.widen();
    relu_forward<N>(n, x.stored.data(), y.stored.data(), {});
    relu_forward<float>(n, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_equal_float(y.stored, y.wide_copy));
    half_tensor<N> g(n, 4);
    relu_backward<N>(n, y.stored.data(), g.stored.data(), {});
    relu_backward<float>(n, y.wide_copy.data(), g.wide_copy.data(), {});
    CHECK(is_equal_float(g.stored, g.wide_copy));
  }
}

TEST_CASE_TEMPLATE("half precision: pixels are normalized and rounded once", K, HALF_FORMS) {
  using N = typename K::number;
  const extent e{3, 5, 3};
  std::vector<std::uint8_t> bytes(2 * e.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37);
  const normalization by{{0.4f, 0.5f, 0.6f, 0.0f}, {4.0f, 3.9f, 4.1f, 1.0f}};
  std::vector<N> x(2 * sample_size(e, K::V), to_number<N>(7));
  std::vector<float> exact(x.size(), 7);
  normalize_bytes<N, K::V>(e, 2, bytes.data(), by, x.data(), {});
  normalize_bytes<float, K::V>(e, 2, bytes.data(), by, exact.data(), {});
  CHECK(is_rounded_float(x, exact));
}

TEST_CASE_TEMPLATE("half precision: the classifier sums in float", N, half, bfloat) {
  for (const std::size_t features : {1u, 8u, 19u, 600u}) {  // 600: more than one block of sums
    const linear_problem p{features, 11, features + 5};
    const int samples = 3;
    half_tensor<N> x(samples * p.stride, 1), w(p.features * p.outputs, 2),
        y(samples * p.outputs, 3), dx(samples * p.stride, 4);
    const auto b = normal_numbers<float>(p.outputs, 5);
    linear_forward<N>(p, samples, x.stored.data(), w.stored.data(), b.data(), y.stored.data(), {});
    linear_forward<float>(p, samples, x.wide_copy.data(), w.wide_copy.data(), b.data(),
                          y.wide_copy.data(), {});
    CHECK(is_rounded_float(y.stored, y.wide_copy));

    half_tensor<N> dy(samples * p.outputs, 6);
    linear_input_gradient<N>(p, samples, dy.stored.data(), w.stored.data(), dx.stored.data(), {});
    linear_input_gradient<float>(p, samples, dy.wide_copy.data(), w.wide_copy.data(),
                                 dx.wide_copy.data(), {});
    CHECK(is_rounded_float(dx.stored, dx.wide_copy));

    for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
      auto dw = normal_numbers<float>(p.features * p.outputs, 7), db = b;
      auto exact_dw = dw, exact_db = db;
      linear_weight_gradient<N>(p, samples, x.stored.data(), dy.stored.data(), dw.data(), db.data(),
                                mode, {});
      linear_weight_gradient<float>(p, samples, x.wide_copy.data(), dy.wide_copy.data(),
                                    exact_dw.data(), exact_db.data(), mode, {});
      CHECK(is_rounded_float(dw, exact_dw));
      CHECK(db == exact_db);
    }
  }
}

TEST_CASE_TEMPLATE("half precision: loss and metrics of the logits, their gradient rounded once", N,
                   half, bfloat) {
  half_tensor<N> z(4 * 7, 1), dz(4 * 7, 2);
  z.stored[8] = z.stored[9];  // equal logits: the smaller index ranks above
  z.widen();
  const std::vector<std::int32_t> labels{0, 2, 6, 3};
  const auto stored = batch_loss(cross_entropy{0.1}, 7, 4, z.stored.data(), {labels.data()},
                                 64.0 / 4, dz.stored.data(), cpu::stream{}),
             exact = batch_loss(cross_entropy{0.1}, 7, 4, z.wide_copy.data(), {labels.data()},
                                64.0 / 4, dz.wide_copy.data(), cpu::stream{});
  CHECK(stored.loss == exact.loss);
  CHECK(stored.top1 == exact.top1);
  CHECK(stored.top5 == exact.top5);
  CHECK(is_rounded_float(dz.stored, dz.wide_copy));
  z.stored[0] = N::nearest(std::nanf(""));
  CHECK(
      batch_loss<N>(cross_entropy{}, 7, 1, z.stored.data(), {labels.data()}, 1, nullptr, {}).top5 ==
      0);
}

TEST_CASE_TEMPLATE("half precision: pools and subsampling", K, HALF_FORMS) {
  using N = typename K::number;
  constexpr int V = K::V;
  const extent e{5, 6, 7};
  const int samples = 2;
  const half_tensor<N> x(e, samples, V, 1);
  SUBCASE("the mean over pixels") {
    half_tensor<N> y({5, 1, 1}, samples, V, 2), dx = x;
    average_pool_forward<N, V>(e, samples, x.stored.data(), y.stored.data(), {});
    average_pool_forward<float, V>(e, samples, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_rounded_float(y.stored, y.wide_copy));
    y.widen();
    average_pool_backward<N, V>(e, samples, y.stored.data(), dx.stored.data(), {});
    average_pool_backward<float, V>(e, samples, y.wide_copy.data(), dx.wide_copy.data(), {});
    CHECK(is_rounded_float(dx.stored, dx.wide_copy));
  }
  SUBCASE("the maximum") {
    const max_pool_problem p{e, 3, 2, 1};
    half_tensor<N> y(p.out(), samples, V, 2);
    std::vector<std::uint8_t> argmax(y.stored.size()), expected(y.stored.size());
    max_pool_forward<N, V>(p, samples, x.stored.data(), y.stored.data(), argmax.data(), {});
    max_pool_forward<float, V>(p, samples, x.wide_copy.data(), y.wide_copy.data(), expected.data(),
                               {});
    CHECK(is_equal_float(y.stored, y.wide_copy));
    CHECK(argmax == expected);
    for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
      half_tensor<N> dx(e, samples, V, 3);
      max_pool_backward<N, V>(p, samples, y.stored.data(), argmax.data(), dx.stored.data(), mode,
                              {});
      max_pool_backward<float, V>(p, samples, y.wide_copy.data(), argmax.data(),
                                  dx.wide_copy.data(), mode, {});
      CHECK(is_rounded_float(dx.stored, dx.wide_copy));
    }
  }
  SUBCASE("every second pixel") {
    const subsample_problem p{e, {9, 3, 4}, 2};
    half_tensor<N> y(p.out, samples, V, 2), dx = x;
    subsample_forward<N, V, V>(p, samples, x.stored.data(), y.stored.data(), {});
    subsample_forward<float, V, V>(p, samples, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_equal_float(y.stored, y.wide_copy));
    subsample_backward<N, V, V>(p, samples, y.stored.data(), dx.stored.data(), {});
    subsample_backward<float, V, V>(p, samples, y.wide_copy.data(), dx.wide_copy.data(), {});
    CHECK(is_equal_float(dx.stored, dx.wide_copy));
  }
}
