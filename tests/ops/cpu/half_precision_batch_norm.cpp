// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm over numbers of 16 bits is that over floats, rounded once where it is stored.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/batch_norm.hpp>

#include "tests/support/half_tensor.hpp"
#include "tests/support/numbers.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

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

/// Sums of 75 terms of about one, in another order: of 15 pixels in float, of 5 samples in double.
bool are_equal_sums(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 15 * 0x1p-24f * 75)) return false;
  return a.size() == b.size();
}

template <class K, class Epilogue>
void check_half_batch_norm(int ghost_batch) {
  using N = typename K::number;
  constexpr int V = K::V;
  const batch_norm_problem p{{37, 5, 3}, ghost_batch};  // a pixel without another one
  const int samples = 5;
  const half_tensor<N> x(p.in, samples, V, 1), residual(p.in, samples, V, 2);
  half_tensor<N> dy(p.in, samples, V, 3);
  norm_run<N, V, Epilogue> stored(p, samples);
  norm_run<float, V, Epilogue> exact(p, samples);
  const double count = stored.forward(x.stored, residual.stored);
  CHECK(exact.forward(x.wide_copy, residual.wide_copy) == count);
  CHECK(is_rounded_float(stored.y, exact.y));
  CHECK(is_rounded_float(stored.mean, exact.mean));
  CHECK(is_rounded_float(stored.variance, exact.variance));

  exact.y.clear();  // the mask is of what was stored
  for (const N number : stored.y) exact.y.push_back(widened(number));
  stored.backward(x.stored, dy.stored, count);
  exact.backward(x.wide_copy, dy.wide_copy, count);
  CHECK(is_rounded_float(stored.dx, exact.dx));
  CHECK(is_equal_float(dy.stored, dy.wide_copy));
  CHECK(are_equal_sums(stored.dgamma, exact.dgamma));
  CHECK(are_equal_sums(stored.dbeta, exact.dbeta));

  stored.evaluate(x.stored, residual.stored);
  exact.evaluate(x.wide_copy, residual.wide_copy);
  CHECK(is_rounded_float(stored.y, exact.y));
}

}  // namespace

TEST_CASE_TEMPLATE("half precision: batch norm has statistics and parameters in float", K,
                   HALF_FORMS) {
  for (const int ghost_batch : {0, 2}) {
    check_half_batch_norm<K, epilogue::store>(ghost_batch);
    check_half_batch_norm<K, epilogue::relu>(ghost_batch);
    check_half_batch_norm<K, epilogue::add_relu>(ghost_batch);
  }
}
