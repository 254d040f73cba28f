// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Loops without segments and kinds: everything decays.
#include "benchmarks/optimizer_by_hand.hpp"

#include <algorithm>
#include <cmath>

namespace by_hand {

namespace {

constexpr float mu = 0.9f, decay = 1e-4f, learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.999f,
                eps = 1e-6f, scale1 = 1.1f, scale2 = 1.2f, limit = 0x1p63f;

}  // namespace

void sgd_lr_outside(numbers x) {
  float* __restrict w = x.w, * __restrict m = x.m;
  const float* __restrict g = x.g;
  for (std::size_t i = 0; i < x.n; ++i) {
    m[i] = mu * m[i] + (g[i] + decay * w[i]);
    w[i] -= learning_rate * m[i];
  }
}
void sgd_lr_inside(numbers x) {
  float* __restrict w = x.w, * __restrict m = x.m;
  const float* __restrict g = x.g;
  for (std::size_t i = 0; i < x.n; ++i) {
    m[i] = mu * m[i] + learning_rate * (g[i] + decay * w[i]);
    w[i] -= m[i];
  }
}
void decentlam_accept(numbers x) {
  float* __restrict w = x.w, * __restrict m = x.m;
  const float* __restrict mixed = x.g;
  for (std::size_t i = 0; i < x.n; ++i) {
    m[i] = mu * m[i] + (w[i] - mixed[i]);
    w[i] -= m[i];
  }
}
void scale_gradient(numbers x) {
  float* __restrict g = x.g;
  for (std::size_t i = 0; i < x.n; ++i) g[i] *= 0.5f;
}
void adamw(numbers x) {
  float* __restrict w = x.w, * __restrict m = x.m, * __restrict v = x.v;
  const float* __restrict gradient = x.g;
  for (std::size_t i = 0; i < x.n; ++i) {
    const float g = std::clamp(gradient[i], -limit, limit);
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
    w[i] = (1 - learning_rate * decay) * w[i] -
           learning_rate * (scale1 * m[i] / (scale2 * std::sqrt(v[i]) + eps));
  }
}
double lamb_direction(numbers x) {
  // The directions of a block are still in the cache when their squares are summed.
  constexpr std::size_t block = 4096;
  float* __restrict m = x.m, * __restrict v = x.v, * __restrict u = x.g;
  const float* __restrict w = x.w;
  double sum = 0;
  for (std::size_t start = 0; start < x.n; start += block) {
    const std::size_t end = std::min(start + block, x.n);
    for (std::size_t i = start; i < end; ++i) {
      const float g = std::clamp(u[i], -limit, limit);
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
      u[i] = scale1 * m[i] / (scale2 * std::sqrt(v[i]) + eps) + decay * w[i];
    }
    double sums[8] = {};
    std::size_t i = start;
    for (; i + 8 <= end; i += 8)
      for (std::size_t j = 0; j < 8; ++j) sums[j] += static_cast<double>(u[i + j]) * u[i + j];
    for (; i < end; ++i) sum += static_cast<double>(u[i]) * u[i];
    for (const double s : sums) sum += s;
  }
  return sum;
}
void lamb_step(numbers x) {
  float* __restrict w = x.w;
  const float* __restrict u = x.g;
  for (std::size_t i = 0; i < x.n; ++i) w[i] -= learning_rate * u[i];
}

}  // namespace by_hand
