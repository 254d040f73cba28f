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
#include <cordee/ops/cpu/batch_norm.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/linear.hpp>
#include <cordee/ops/cpu/loss.hpp>
#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/numbers.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

namespace {

template <class Number, int Block>
struct in_blocks {
  using number = Number;
  static constexpr int V = Block;
};
// One lane, a width without instructions of its own, a register.
#define HALF_FORMS                                                                    \
  in_blocks<half, 1>, in_blocks<bfloat, 1>, in_blocks<half, 3>, in_blocks<bfloat, 4>, \
      in_blocks<half, lanes<float>>, in_blocks<bfloat, lanes<float>>

/// The same numbers as N and as float.
template <Number N>
struct tensor {
  std::vector<N> stored;
  std::vector<float> wide_copy;

  tensor(std::size_t n, std::uint64_t seed) : stored(to_numbers<N>(normal_numbers(n, seed))) {
    widen();
  }
  /// Channels from `e.channels` on, which pad the last block of V, become zero.
  tensor(const extent& e, int samples, int block, std::uint64_t seed)
      : tensor(static_cast<std::size_t>(samples) * sample_size(e, block), seed) {
    const auto v = static_cast<std::size_t>(block);
    for (std::size_t i = 0; i < stored.size(); ++i)
      if (i % sample_size(e, block) / (e.pixels() * v) * v + i % v >=
          static_cast<std::size_t>(e.channels))
        stored[i] = N{};
    widen();
  }
  void widen() {
    wide_copy.clear();
    for (const N x : stored) wide_copy.push_back(widened(x));
  }
};

/// Whether `stored` is `exact`, rounded to N. In another order of fused products a float differs in
/// its last bits: 2^-20 of it is allowed.
template <Number N>
bool is_rounded(const std::vector<N>& stored, const std::vector<float>& exact) {
  REQUIRE(stored.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto x = static_cast<double>(exact[i]);
    const double error = std::abs(to_double(stored[i]) - x);
    if (!(error <= storage_error<N>(x) + 0x1p-20 * std::abs(x))) return false;
  }
  return true;
}
template <Number N>
bool is_equal(const std::vector<N>& stored, const std::vector<float>& exact) {
  return is_rounded(stored, exact) && to_doubles(stored) == to_doubles(exact);
}

}  // namespace

TEST_CASE_TEMPLATE("half precision: elementwise passes round a float's result once", N, half,
                   bfloat) {
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 4097u}) {
    tensor<N> x(n, 1), y(n, 2);
    add<N>(n, x.stored.data(), y.stored.data(), {});
    add<float>(n, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_rounded(y.stored, y.wide_copy));

    std::vector<N> converted(n);
    const auto masters = normal_numbers<float>(n, 3);
    convert(n, masters.data(), converted.data(), cpu::stream{});
    for (std::size_t i = 0; i < n; ++i) CHECK(converted[i].bits == N::nearest(masters[i]).bits);

    y.widen();
    relu_forward<N>(n, x.stored.data(), y.stored.data(), {});
    relu_forward<float>(n, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_equal(y.stored, y.wide_copy));
    tensor<N> g(n, 4);
    relu_backward<N>(n, y.stored.data(), g.stored.data(), {});
    relu_backward<float>(n, y.wide_copy.data(), g.wide_copy.data(), {});
    CHECK(is_equal(g.stored, g.wide_copy));
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
  CHECK(is_rounded(x, exact));
}

TEST_CASE_TEMPLATE("half precision: the classifier sums in float", N, half, bfloat) {
  for (const std::size_t features : {1u, 8u, 19u, 600u}) {  // 600: more than one block of sums
    const linear_problem p{features, 11, features + 5};
    const int samples = 3;
    tensor<N> x(samples * p.stride, 1), w(p.features * p.outputs, 2), y(samples * p.outputs, 3),
        dx(samples * p.stride, 4);
    const auto b = normal_numbers<float>(p.outputs, 5);
    linear_forward<N>(p, samples, x.stored.data(), w.stored.data(), b.data(), y.stored.data(), {});
    linear_forward<float>(p, samples, x.wide_copy.data(), w.wide_copy.data(), b.data(),
                          y.wide_copy.data(), {});
    CHECK(is_rounded(y.stored, y.wide_copy));

    tensor<N> dy(samples * p.outputs, 6);
    linear_input_gradient<N>(p, samples, dy.stored.data(), w.stored.data(), dx.stored.data(), {});
    linear_input_gradient<float>(p, samples, dy.wide_copy.data(), w.wide_copy.data(),
                                 dx.wide_copy.data(), {});
    CHECK(is_rounded(dx.stored, dx.wide_copy));

    for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
      auto dw = normal_numbers<float>(p.features * p.outputs, 7), db = b;
      auto exact_dw = dw, exact_db = db;
      linear_weight_gradient<N>(p, samples, x.stored.data(), dy.stored.data(), dw.data(), db.data(),
                                mode, {});
      linear_weight_gradient<float>(p, samples, x.wide_copy.data(), dy.wide_copy.data(),
                                    exact_dw.data(), exact_db.data(), mode, {});
      CHECK(is_rounded(dw, exact_dw));
      CHECK(db == exact_db);
    }
  }
}

TEST_CASE_TEMPLATE("half precision: loss and metrics of the logits, their gradient rounded once", N,
                   half, bfloat) {
  tensor<N> z(4 * 7, 1), dz(4 * 7, 2);
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
  CHECK(is_rounded(dz.stored, dz.wide_copy));
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
  const tensor<N> x(e, samples, V, 1);
  SUBCASE("the mean over pixels") {
    tensor<N> y({5, 1, 1}, samples, V, 2), dx = x;
    average_pool_forward<N, V>(e, samples, x.stored.data(), y.stored.data(), {});
    average_pool_forward<float, V>(e, samples, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_rounded(y.stored, y.wide_copy));
    y.widen();
    average_pool_backward<N, V>(e, samples, y.stored.data(), dx.stored.data(), {});
    average_pool_backward<float, V>(e, samples, y.wide_copy.data(), dx.wide_copy.data(), {});
    CHECK(is_rounded(dx.stored, dx.wide_copy));
  }
  SUBCASE("the maximum") {
    const max_pool_problem p{e, 3, 2, 1};
    tensor<N> y(p.out(), samples, V, 2);
    std::vector<std::uint8_t> argmax(y.stored.size()), expected(y.stored.size());
    max_pool_forward<N, V>(p, samples, x.stored.data(), y.stored.data(), argmax.data(), {});
    max_pool_forward<float, V>(p, samples, x.wide_copy.data(), y.wide_copy.data(), expected.data(),
                               {});
    CHECK(is_equal(y.stored, y.wide_copy));
    CHECK(argmax == expected);
    for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
      tensor<N> dx(e, samples, V, 3);
      max_pool_backward<N, V>(p, samples, y.stored.data(), argmax.data(), dx.stored.data(), mode,
                              {});
      max_pool_backward<float, V>(p, samples, y.wide_copy.data(), argmax.data(),
                                  dx.wide_copy.data(), mode, {});
      CHECK(is_rounded(dx.stored, dx.wide_copy));
    }
  }
  SUBCASE("every second pixel") {
    const subsample_problem p{e, {9, 3, 4}, 2};
    tensor<N> y(p.out, samples, V, 2), dx = x;
    subsample_forward<N, V, V>(p, samples, x.stored.data(), y.stored.data(), {});
    subsample_forward<float, V, V>(p, samples, x.wide_copy.data(), y.wide_copy.data(), {});
    CHECK(is_equal(y.stored, y.wide_copy));
    subsample_backward<N, V, V>(p, samples, y.stored.data(), dx.stored.data(), {});
    subsample_backward<float, V, V>(p, samples, y.wide_copy.data(), dx.wide_copy.data(), {});
    CHECK(is_equal(dx.stored, dx.wide_copy));
  }
}

namespace {

/// Forward and backward of one batch norm on numbers of N; statistics and parameters are floats.
template <Number N, int V, class Epilogue>
struct norm_run {
  batch_norm_problem p;
  int samples;
  std::vector<N> y, dx;
  std::vector<float> gamma, beta, mean, variance, saved, dgamma, dbeta;
  std::vector<double> scratch;

  norm_run(const batch_norm_problem& problem, int n)
      : p(problem), samples(n), scratch(problem.scratch_size(n, V)) {
    const std::size_t size = static_cast<std::size_t>(n) * sample_size(p.in, V);
    const auto channels = static_cast<std::size_t>(p.in.channels);
    y.resize(size);
    dx.resize(size);
    gamma = normal_numbers<float>(channels, 11);
    beta = normal_numbers<float>(channels, 12);
    gamma.resize(p.padded_channels(V), 0);
    beta.resize(p.padded_channels(V), 0);
    mean.resize(channels, 0);
    variance.resize(channels, 1);
    dgamma.resize(channels, 0);
    dbeta.resize(channels, 0);
    saved.resize(p.saved_size(n, V));
  }
  batch_norm_tensors<N, float> tensors(const std::vector<N>& x) {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data(), scratch.data()};
  }
  double forward(const std::vector<N>& x, const std::vector<N>& residual) {
    return batch_norm_forward<N, V, Epilogue>(p, samples, tensors(x), residual.data(), mean.data(),
                                              variance.data(), {}, {});
  }
  void evaluate(const std::vector<N>& x, const std::vector<N>& residual) {
    batch_norm_evaluate<N, V, Epilogue>(p, samples, tensors(x), residual.data(), mean.data(),
                                        variance.data(), {});
  }
  /// dy becomes the residual's gradient.
  void backward(const std::vector<N>& x, std::vector<N>& dy, double count) {
    batch_norm_backward<N, V, Epilogue>(p, samples, tensors(x), count, dy.data(), dx.data(),
                                        dgamma.data(), dbeta.data(), write_mode::overwrite, {}, {});
  }
};

template <class K, class Epilogue>
void check_batch_norm(int ghost_batch) {
  using N = typename K::number;
  constexpr int V = K::V;
  const batch_norm_problem p{{5, 4, 3}, ghost_batch};
  const int samples = 5;
  const tensor<N> x(p.in, samples, V, 1), residual(p.in, samples, V, 2);
  tensor<N> dy(p.in, samples, V, 3);
  norm_run<N, V, Epilogue> stored(p, samples);
  norm_run<float, V, Epilogue> exact(p, samples);
  const double count = stored.forward(x.stored, residual.stored);
  CHECK(exact.forward(x.wide_copy, residual.wide_copy) == count);
  CHECK(is_rounded(stored.y, exact.y));
  CHECK(is_rounded(stored.mean, exact.mean));
  CHECK(is_rounded(stored.variance, exact.variance));

  exact.y.clear();  // the mask is of what was stored
  for (const N number : stored.y) exact.y.push_back(widened(number));
  stored.backward(x.stored, dy.stored, count);
  exact.backward(x.wide_copy, dy.wide_copy, count);
  CHECK(is_rounded(stored.dx, exact.dx));
  CHECK(is_equal(dy.stored, dy.wide_copy));
  CHECK(is_rounded(stored.dgamma, exact.dgamma));
  CHECK(is_rounded(stored.dbeta, exact.dbeta));

  stored.evaluate(x.stored, residual.stored);
  exact.evaluate(x.wide_copy, residual.wide_copy);
  CHECK(is_rounded(stored.y, exact.y));
}

}  // namespace

TEST_CASE_TEMPLATE("half precision: batch norm has statistics and parameters in float", K,
                   HALF_FORMS) {
  for (const int ghost_batch : {0, 2}) {
    check_batch_norm<K, epilogue::store>(ghost_batch);
    check_batch_norm<K, epilogue::relu>(ghost_batch);
    check_batch_norm<K, epilogue::add_relu>(ghost_batch);
  }
}
