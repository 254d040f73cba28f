// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of an integer network on SIMD registers: engine `direct`'s convolution of bytes
// (vpdpbusd with AVX-512 VNNI or AVX-VNNI; with AVX2 products of 16 bits, since vpmaddubsw adds two
// products of up to 255 x 127 in 16 bits and would clip), and one pass that rescales its sums while
// they are in the cache. Activations are (C / V, H, W, V); weights are packed once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/infer/integer_layers.hpp>
#include <cordee/infer/rescale_lanes.hpp>
#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/ops/engines/direct/bytes.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <int V>
struct packed_convolution {
  const integer_convolution* layer;
  ops::byte_correlation<V, ops::byte_dots> kernel;
  ops::affine_quantizer<float> quantizer;  // of which the zero point is read
  std::vector<std::int8_t> weights;
  std::vector<std::int32_t> bias;     // (K), padded with zeros to blocks
  std::vector<rescaling<V>> factors;  // (K / V)
  bool fits_32_bits = true;           // every rescaled sum and residual

  /// `largest_residual`: of the magnitudes of what is added; 0: nothing is.
  packed_convolution(const integer_convolution& c, std::int64_t largest_residual)
      : layer(&c), kernel(c.problem), weights(kernel.packed_size()), bias(c.bias) {
    quantizer.zero_point = c.zero_point;
    kernel.pack(c.weights.data(), weights.data());
    const std::size_t filters = c.bias.size(), each = c.weights.size() / filters;
    bias.resize((filters + V - 1) / V * V);
    const auto check = [&](std::int64_t bound, fixed_point f) {
      // A factor of 2^30 is not rescaled here; others shift by at least one.
      if (f.shift >= 31 || ops::rescaled(std::min(bound, std::int64_t{1} << 31), f) >= 1 << 29)
        fits_32_bits = false;
    };
    for (std::size_t k = 0; k < filters; ++k) {
      std::int64_t bound = std::abs(std::int64_t{c.bias[k]});
      for (std::size_t i = 0; i < each; ++i) bound += 255 * std::abs(c.weights[k * each + i]);
      check(bound, c.factors[k]);
    }
    check(largest_residual, c.residual_factor);
    check(32768, c.input_factor);
    if (!fits_32_bits) return;
    for (std::size_t k = 0; k < filters; k += V)
      factors.emplace_back(std::span(c.factors).subspan(k, std::min<std::size_t>(V, filters - k)));
  }
};

template <int V>
struct direct_layers {
  static std::size_t size_of(const extent& e) {
    return ops::sample_size(e, ops::channel_block_size<V>(e.channels));
  }
  /// Calls f(number in (C, H, W), number in (C / V, H, W, V)).
  template <class F>
  static void for_each_number(const extent& e, const F& f) {
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(e.channels));
    for (std::size_t c = 0, i = 0; c < static_cast<std::size_t>(e.channels); ++c)
      for (std::size_t p = 0; p < e.pixels(); ++p, ++i)
        f(i, (c / block * e.pixels() + p) * block + c % block);
  }

  /// The first layer's bytes of an image (C, H, W), by the table (C, 256).
  static void read_image(const extent& e, const std::uint8_t* table, const std::uint8_t* image,
                         std::uint8_t* q) {
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(e.channels)),
               pixels = e.pixels();
    for (std::size_t c = 0; c < static_cast<std::size_t>(e.channels); ++c, table += 256) {
      std::uint8_t* const to = q + c / block * pixels * block + c % block;
      for (std::size_t p = 0; p < pixels; ++p) to[p * block] = table[*image++];
    }
  }

  /// Bytes of an input of 16 bits.
  static void to_bytes(const packed_convolution<V>& c, std::size_t n, const std::int16_t* x,
                       std::uint8_t* q) {
    const integer_convolution& layer = *c.layer;
    std::size_t i = 0;
    if (c.fits_32_bits) {
      const fixed_point f = layer.input_factor;
      const int shift = 1 - f.shift;
      const bool is_shift = f.multiplier == 1 << 30 && shift > 0 && shift < 31;  // equal ranges: 1/64
      const std::int32_t half = is_shift ? 1 << (shift - 1) : 0;
      const auto rescale = rescaling_of_all(f);
      const lanes32<V> zero = lanes32<V>{} + layer.zero_point, most = lanes32<V>{} + 255;
      for (; i + V <= n; i += V) {
        const lanes32<V> v =
            __builtin_convertvector((ops::load<std::int16_t, V>(x + i)), lanes32<V>);
        const lanes32<V> scaled = is_shift ? (v + half) >> shift : rescale(v);
        store_clipped(q + i, scaled + zero, lanes32<V>{}, most);
      }
    }
    for (; i < n; ++i) q[i] = static_cast<std::uint8_t>(layer.byte_of<std::int64_t>(x[i]));
  }

  /// y of the sums (K / V, pixels, V), or (pixels, K) of few filters.
  template <Activation Residual, Activation Out>
  static void finish(const packed_convolution<V>& c, const std::int32_t* sums,
                     const Residual* residual,  // or null
                     Out* y) {
    const integer_convolution& layer = *c.layer;
    const extent out = layer.problem.out();
    if (!c.fits_32_bits || out.channels <= 4) {
      for_each_number(out, [&](std::size_t i, std::size_t at) {
        const std::size_t k = i / out.pixels();
        const std::int64_t added =
            residual == nullptr ? 0
                                : ops::rescaled(std::int64_t{residual[at]}, layer.residual_factor);
        y[at] = static_cast<Out>(layer.output(k, std::int64_t{sums[at]} + layer.bias[k], added));
      });
      return;
    }
    const rescaling<V> rescale_residual = rescaling_of_all(layer.residual_factor);
    const lanes32<V> low = lanes32<V>{} + layer.low, high = lanes32<V>{} + layer.high;
    const std::size_t pixels = out.pixels();
    for (std::size_t b = 0; b < c.factors.size(); ++b) {
      const rescaling<V> rescale = c.factors[b];
      const lanes32<V> bias = ops::load<std::int32_t, V>(c.bias.data() + b * V),
                       offset = lanes32<V>{} + layer.offset;
      for (std::size_t p = 0; p < pixels; ++p) {
        const std::size_t at = (b * pixels + p) * V;
        lanes32<V> v = rescale(ops::load<std::int32_t, V>(sums + at) + bias) + offset;
        if (residual != nullptr)
          v += rescale_residual(
              __builtin_convertvector((ops::load<Residual, V>(residual + at)), lanes32<V>));
        store_clipped(y + at, v, low, high);
      }
    }
  }

  template <Activation A>
  static void max_pool(const ops::max_pool_problem& p, const A* x, A* y) {
    const extent out = p.out();
    const int block = ops::channel_block_size<V>(p.in.channels);
    const auto pool = [&]<int B>() {
      for (std::size_t b = 0; b < ops::channel_blocks(p.in.channels, B); ++b)
        for (int i = 0; i < out.height; ++i)
          for (int j = 0; j < out.width; ++j, y += B) {
            const auto [r0, r1] = p.taps(i, p.in.height);
            const auto [s0, s1] = p.taps(j, p.in.width);
            const auto at = [&](int r, int s) {
              return x + ((static_cast<std::ptrdiff_t>(b) * p.in.height + i * p.stride - p.padding +
                           r) *
                              p.in.width +
                          j * p.stride - p.padding + s) *
                             B;
            };
            std::copy_n(at(r0, s0), B, y);
            for (int r = r0; r < r1; ++r)
              for (int s = s0; s < s1; ++s) {
                const A* const from = at(r, s);
                for (int v = 0; v < B; ++v) y[v] = std::max(y[v], from[v]);
              }
          }
    };
    block == 1   ? pool.template operator()<1>()
    : block == 2 ? pool.template operator()<2>()
    : block == 3 ? pool.template operator()<3>()
    : block == 4 ? pool.template operator()<4>()
                 : pool.template operator()<V>();
  }

  static void subsample(const ops::subsample_problem& p, const std::int16_t* x, std::int16_t* y) {
    const int x_block = ops::channel_block_size<V>(p.in.channels),
              y_block = ops::channel_block_size<V>(p.out.channels);
    std::fill_n(y, size_of(p.out), std::int16_t{0});
    for (int c = 0, run; c < p.in.channels; c += run) {  // channels of one block in x and in y
      const int to = c - p.source(0);
      run = std::min({x_block - c % x_block, y_block - to % y_block, p.in.channels - c});
      const std::int16_t* const from =
          x + std::ptrdiff_t{c / x_block} * p.in.height * p.in.width * x_block + c % x_block;
      std::int16_t* at =
          y + std::ptrdiff_t{to / y_block} * p.out.height * p.out.width * y_block + to % y_block;
      for (int i = 0; i < p.out.height; ++i)
        for (int j = 0; j < p.out.width; ++j, at += y_block)
          std::memcpy(at, from + (std::ptrdiff_t{i} * p.in.width + j) * p.stride * x_block,
                      static_cast<std::size_t>(run) * sizeof *at);
    }
  }

  static void mean(const extent& in, const std::int32_t* x, std::int32_t* y) {
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(in.channels));
    const auto pixels = static_cast<std::int64_t>(in.pixels());
    for (std::size_t b = 0; b < ops::channel_blocks(in.channels, static_cast<int>(block)); ++b) {
      std::int64_t sum[std::size_t{V}] = {};
      for (std::int64_t p = 0; p < pixels; ++p)
        for (std::size_t v = 0; v < block; ++v) sum[v] += *x++;
      for (std::size_t v = 0; v < block; ++v) {
        const std::int64_t rounded = sum[v] + pixels / 2, quotient = rounded / pixels;
        *y++ = static_cast<std::int32_t>(rounded < quotient * pixels ? quotient - 1 : quotient);
      }
    }
  }

  static void classifier(const integer_classifier& c, const std::int32_t* x, std::int32_t* logits) {
    for (std::size_t k = 0; k < c.classes; ++k) {
      const std::int8_t* const w = c.weights.data() + k * c.features;
      ops::vec<std::int64_t, V> sums{};
      std::size_t f = 0;
      for (; f + V <= c.features; f += V) {  // a product has at most 30 bits
        const lanes32<V> weight =
            __builtin_convertvector((ops::load<std::int8_t, V>(w + f)), lanes32<V>);
        sums += __builtin_convertvector((weight * ops::load<std::int32_t, V>(x + f)),
                                        ops::vec<std::int64_t, V>);
      }
      std::int64_t sum = c.bias[k];
      for (int v = 0; v < V; ++v) sum += sums[v];
      for (; f < c.features; ++f) sum += std::int64_t{w[f]} * x[f];
      if (c.shift > 0) sum = (sum + (std::int64_t{1} << (c.shift - 1))) >> c.shift;
      logits[k] = static_cast<std::int32_t>(ops::rescaled(sum, c.factors[k]));
    }
  }

 private:
  static rescaling<V> rescaling_of_all(fixed_point f) {
    fixed_point all[std::size_t{V}];
    std::fill(all, all + V, f);
    return rescaling<V>(all);
  }
  template <class Out>
  [[gnu::always_inline]] static void store_clipped(Out* y, lanes32<V> v, lanes32<V> low,
                                                   lanes32<V> high) {
    v = v < low ? low : v;
    v = v > high ? high : v;
    ops::store<Out, V>(y, __builtin_convertvector(v, ops::vec<Out, V>));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
