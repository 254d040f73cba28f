// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of the operations of quantized layers (ops/quantize.hpp): fake quantization, the
// gradient mask of the straight-through estimator, and weights as bytes.
//
// Ranges and scales stay in device memory: the host waits for none of them, so a step can be
// captured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/block_max.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/quantized_input.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct running_range_op {
  const float *low, *high;
  observed_input* record;
  CORDEE_DEVICE void operator()(std::size_t) const {
    record->has_range = *low <= *high;
    record->quantizer = fit_affine(*low, *high, unsigned_bytes);
  }
};

struct fake_quantize_op {
  const affine_quantizer<float>* k;
  CORDEE_DEVICE float operator()(float x) const { return k->fake_quantize(x); }
};
struct straight_through_op {
  const affine_quantizer<float>* k;
  CORDEE_DEVICE float operator()(float x, float g) const { return k->in_range(x) ? g : 0; }
};
struct add_straight_through_op {
  const float* x;
  const affine_quantizer<float>* k;
  const float* g;
  float* accumulated;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    accumulated[i] += k->in_range(x[i]) ? g[i] : 0;
  }
};

/// A block quantizes one filter by its largest absolute weight.
template <class Storage>
struct quantize_filter_kernel {
  static constexpr int threads = 128;
  std::size_t filter_size;
  const float* w;
  std::int8_t* q;
  Storage* dequantized;
  float* scales;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t first = b.index() * filter_size, last = first + filter_size,
                      start = first + static_cast<std::size_t>(b.thread());
    double max = 0;
    for (std::size_t i = start; i < last; i += threads) {
      const float a = w[i] < 0 ? -w[i] : w[i];
      if (!(a <= max)) max = a == a ? a : std::numeric_limits<float>::infinity();
    }
    const auto k = fit_symmetric(static_cast<float>(block_max<threads>(b, max)));
    if (b.thread() == 0) scales[b.index()] = k.scale;
    for (std::size_t i = start; i < last; i += threads) {
      const int quantized = k.quantize(w[i]);
      q[i] = static_cast<std::int8_t>(quantized);
      dequantized[i] = precision::rounded<Storage>(static_cast<float>(quantized) * k.scale);
    }
  }
};

/// Evaluation: fits the scaling of the input to the running range, if there is one.
template <GpuStream S>
void recall_input(const float* low, const float* high, observed_input* record, S s) {
  launch_single(s, running_range_op{low, high, record});
}

/// y <- dequantized quantize(x)
template <GpuStream S>
void fake_quantize(std::size_t n, const float* x, const affine_quantizer<float>* k, float* y, S s) {
  for_each_vec(s, n, x, y, fake_quantize_op{k});
}

/// g <- g where x is in the quantization range, 0 elsewhere; with `accumulated`, adds that to it
/// instead.
template <GpuStream S>
void straight_through(std::size_t n, const float* x, const affine_quantizer<float>* k, float* g,
                      float* accumulated, S s) {
  if (accumulated == nullptr)
    for_each_vec(s, n, x, g, straight_through_op{k});
  else
    for_each(s, n, add_straight_through_op{x, k, g, accumulated});
}

/// Weights (filters, filter_size) as bytes, the filters' scales, and the dequantized weights.
template <Number Storage, GpuStream S>
void quantize_filters(std::size_t filters, std::size_t filter_size, const float* w, std::int8_t* q,
                      Storage* dequantized, float* scales, S s) {
  s.launch_kernel(filters, quantize_filter_kernel<Storage>{filter_size, w, q, dequantized, scales});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
