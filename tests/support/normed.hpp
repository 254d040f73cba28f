// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One batch norm with all its memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <cordee/ops/batch_norm.hpp>
#include <cordee/testing/gradient.hpp>

namespace support {

using namespace cordee;

template <class Real, int V, class Epilogue>
struct normed {
  batch_norm_problem at;
  int samples;
  std::vector<Real> x, y, residual, gamma, beta, mean, variance, saved, dgamma, dbeta;
  std::vector<double> scratch;
  double count = 0;
  combine_sums combine{};
  cpu::stream s{};

  normed(batch_norm_problem problem, int n, std::uint64_t seed = 1) : at(problem), samples(n) {
    const std::size_t size = static_cast<std::size_t>(n) * sample_size(at.at, V);
    const auto channels = static_cast<std::size_t>(at.at.channels);
    x = padded(normal_numbers<Real>(size, seed));
    residual = padded(normal_numbers<Real>(size, seed + 1));
    y.assign(size, Real{7});
    gamma = normal_numbers<Real>(channels, seed + 2);
    beta = normal_numbers<Real>(channels, seed + 3);
    gamma.resize(at.lanes_of(V), 0);
    beta.resize(at.lanes_of(V), 0);
    mean.assign(channels, 0);
    variance.assign(channels, 1);
    dgamma.assign(channels, 0);
    dbeta.assign(channels, 0);
    saved.resize(at.saved(n, V));
    scratch.resize(at.scratch(n, V));
  }
  /// Zeros where a block has no channel.
  std::vector<Real> padded(std::vector<Real> numbers) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!real_channel(i)) numbers[i] = 0;
    return numbers;
  }
  bool real_channel(std::size_t i) const {
    return channel_of(i) < static_cast<std::size_t>(at.at.channels);
  }
  std::size_t channel_of(std::size_t i) const {
    return i % sample_size(at.at, V) / (at.at.pixels() * V) * V + i % V;
  }
  batch_norm_tensors<Real> tensors() {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data(), scratch.data()};
  }
  void forward() {
    count = batch_norm_forward<Real, V, Epilogue>(at, samples, tensors(), residual.data(),
                                                  mean.data(), variance.data(), combine, s);
  }
  void evaluate() {
    batch_norm_evaluate<Real, V, Epilogue>(at, samples, tensors(), residual.data(), mean.data(),
                                           variance.data(), s);
  }
  std::vector<Real> backward(std::vector<Real>& dy, into mode = into::overwrite) {
    std::vector<Real> dx(x.size(), Real{7});
    batch_norm_backward<Real, V, Epilogue>(at, samples, tensors(), count, dy.data(), dx.data(),
                                           dgamma.data(), dbeta.data(), mode, combine, s);
    return dx;
  }
};

/// One channel of one pixel a sample, as in the golden values.
using one_channel = normed<double, 1, epilogue::store>;

inline one_channel golden(std::vector<double> x) {
  one_channel bn({{1, 1, 1}, 0}, static_cast<int>(x.size()));
  bn.x = std::move(x);
  bn.gamma = {1.5};
  bn.beta = {0.2};
  return bn;
}

}  // namespace support
