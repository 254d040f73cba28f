// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The batch norm of an integer network on SIMD registers: products of 64 bits in two halves, of the
// even and of the odd lanes. Activations are (C / V, H, W, V).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <cordee/core/equal_part.hpp>
#include <cordee/infer/cpu/rescale_lanes.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <int V>
class packed_batch_norm {
 public:
  /// Keeps a reference to the layer. `largest_residual`: of the magnitudes of what is added; 0:
  /// nothing is.
  packed_batch_norm(const integer_batch_norm& n, std::int64_t largest_residual) : layer_(&n) {
    const std::size_t channels = n.multiplier.size();
    // A factor of 2^30 is not rescaled here; others shift by at least one.
    fits_32_bits_ = n.residual_factor.shift < 31 &&
                    ops::rescaled(largest_residual, n.residual_factor) < 1 << 29;
    for (std::size_t c = 0; c < channels; ++c) {
      if (c % V == 0) blocks_.emplace_back();
      const std::size_t v = c % V;
      half& lane_half = v % 2 == 0 ? blocks_.back().even : blocks_.back().odd;
      lane_half.multiplier[v / 2] = n.multiplier[c];
      lane_half.addend[v / 2] = n.addend[c];
      const std::int64_t sum = std::abs(n.multiplier[c]) * norm_limit + std::abs(n.addend[c]);
      if (sum >> n.shift >= 1 << 29) fits_32_bits_ = false;
    }
  }

  /// A part of the pixels; `residual` may be null.
  template <Activation Out>
  void run(const std::int32_t* x, const std::int32_t* residual, Out* y,
           core::equal_part part = {}) const {
    const auto channels = static_cast<std::size_t>(layer_->in.channels),
               block = static_cast<std::size_t>(ops::channel_block_size<V>(layer_->in.channels)),
               pixels = layer_->in.pixels(), first = part.first(pixels), last = part.last(pixels);
    if (fits_32_bits_ && block == V) {
      for (const channel_block& b : blocks_) {
        run_block(b, first, last, x, residual, y);
        x += pixels * V;
        y += pixels * V;
        if (residual != nullptr) residual += pixels * V;
      }
      return;
    }
    for (std::size_t c = 0; c < channels; ++c)  // by the definition
      for (std::size_t p = first; p < last; ++p) {
        const std::size_t at = (c / block * pixels + p) * block + c % block;
        const std::int64_t added = residual == nullptr ? 0
                                                       : ops::rescaled(std::int64_t{residual[at]},
                                                                       layer_->residual_factor);
        y[at] = static_cast<Out>(layer_->output(c, std::int64_t{x[at]}, added));
      }
  }

 private:
  struct half {
    half() : multiplier{}, addend{} {}  // of initial values nvcc 13.0 makes a constant, and fails
    lanes64<V> multiplier, addend;
    [[gnu::always_inline]] lanes64<V> operator()(lanes64<V> x, int shift) const {
      return (x * multiplier + addend) >> shift;
    }
  };
  struct channel_block {
    half even, odd;
  };

  template <Activation Out>
  void run_block(const channel_block& b, std::size_t first, std::size_t last, const std::int32_t* x,
                 const std::int32_t* residual, Out* y) const {
    const wide_rescaling<V> rescale_residual(layer_->residual_factor);
    const lanes32<V> offset = lanes32<V>{} + layer_->offset, low = lanes32<V>{} + layer_->low,
                     high = lanes32<V>{} + layer_->high;
    for (std::size_t at = first * V; at < last * V; at += V) {
      const auto pairs = ops::register_cast<lanes64<V>>(ops::load<std::int32_t, V>(x + at));
      const lanes64<V> even = b.even(pairs << 32 >> 32, layer_->shift),
                       odd = b.odd(pairs >> 32, layer_->shift);
      lanes32<V> v = ops::register_cast<lanes32<V>>((even & 0xffffffff) | odd << 32) + offset;
      if (residual != nullptr) v += rescale_residual(ops::load<std::int32_t, V>(residual + at));
      store_clipped<V>(y + at, v, low, high);
    }
  }

  const integer_batch_norm* layer_;
  std::vector<channel_block> blocks_;  // (C / V), padded with zeros
  bool fits_32_bits_ = true;           // every output and residual
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
