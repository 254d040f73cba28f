// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One batch norm on the CPU with all its buffers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <cordee/ops/cpu/batch_norm.hpp>
#include <cordee/testing/gradient.hpp>

namespace support {

using namespace cordee;

template <class Real, int V, class Epilogue>
struct batch_norm_fixture {
  detail::ops::batch_norm_problem p;
  int samples;
  std::vector<Real> x, y, residual, gamma, beta, mean, variance, saved, dgamma, dbeta;
  std::vector<double> scratch;
  double count = 0;
  detail::ops::statistics_allreduce allreduce{};
  cpu::stream s{};

  batch_norm_fixture(detail::ops::batch_norm_problem problem, int n, std::uint64_t seed = 1)
      : p(problem), samples(n) {
    const std::size_t size = static_cast<std::size_t>(n) * detail::ops::sample_size(p.in, V);
    const auto channels = static_cast<std::size_t>(p.in.channels);
    x = padded(normal_numbers<Real>(size, seed));
    residual = padded(normal_numbers<Real>(size, seed + 1));
    y.assign(size, Real{7});
    gamma = normal_numbers<Real>(channels, seed + 2);
    beta = normal_numbers<Real>(channels, seed + 3);
    gamma.resize(p.padded_channels(V), 0);
    beta.resize(p.padded_channels(V), 0);
    mean.assign(channels, 0);
    variance.assign(channels, 1);
    dgamma.assign(channels, 0);
    dbeta.assign(channels, 0);
    saved.resize(p.saved_size(n, V));
    scratch.resize(p.scratch_size(n, V));
  }
  /// With zero padding channels.
  std::vector<Real> padded(std::vector<Real> numbers) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!is_channel(i)) numbers[i] = 0;
    return numbers;
  }
  bool is_channel(std::size_t i) const {
    return channel_of(i) < static_cast<std::size_t>(p.in.channels);
  }
  std::size_t channel_of(std::size_t i) const {
    return i % detail::ops::sample_size(p.in, V) / (p.in.pixels() * V) * V + i % V;
  }
  detail::ops::batch_norm_tensors<Real> tensors() {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data(), scratch.data()};
  }
  void forward() {
    count = batch_norm_forward<Real, V, Epilogue>(p, samples, tensors(), residual.data(),
                                                  mean.data(), variance.data(), allreduce, s);
  }
  void evaluate() {
    batch_norm_evaluate<Real, V, Epilogue>(p, samples, tensors(), residual.data(), mean.data(),
                                           variance.data(), s);
  }
  std::vector<Real> backward(std::vector<Real>& dy, write_mode mode = write_mode::overwrite) {
    std::vector<Real> dx(x.size(), Real{7});
    batch_norm_backward<Real, V, Epilogue>(p, samples, tensors(), count, dy.data(), dx.data(),
                                           dgamma.data(), dbeta.data(), mode, allreduce, s);
    return dx;
  }
};

/// One channel of one pixel per sample, as in the golden values.
using one_channel = batch_norm_fixture<double, 1, detail::ops::epilogue::store>;

inline one_channel golden(std::vector<double> x) {
  one_channel bn({{1, 1, 1}, 0}, static_cast<int>(x.size()));
  bn.x = std::move(x);
  bn.gamma = {1.5};
  bn.beta = {0.2};
  return bn;
}

}  // namespace support
