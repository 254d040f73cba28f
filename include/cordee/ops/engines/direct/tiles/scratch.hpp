// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A thread's scratch memory in engine `direct`, and the copies that are made in it: activations in
// the type of arithmetic, in blocks of V channels, with padding, or only the pixels behind a
// stride.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Memory of one thread. It grows to the largest size ever reserved.
template <class Real>
class scratch {
 public:
  /// Returns memory for so many numbers, aligned to a cache line. Effects: a larger size than ever
  /// before loses what was in it.
  Real* reserve(std::size_t numbers) {
    constexpr std::size_t cache_line = 64 / sizeof(Real);
    if (memory_.size() < numbers + cache_line) memory_.assign(numbers + cache_line, Real{});
    const auto past = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(Real) % cache_line;
    return memory_.data() + (cache_line - past) % cache_line;
  }

 private:
  std::vector<Real> memory_;
};

/// Memory for numbers of N that holds wide<N>: packed weights and workspaces of 16-bit precisions.
template <class N>
precision::wide<N>* as_wide(N* memory) {
  return reinterpret_cast<precision::wide<N>*>(memory);
}
template <class N>
const precision::wide<N>* as_wide(const N* memory) {
  return reinterpret_cast<const precision::wide<N>*>(memory);
}
/// How many numbers of N hold one of wide<N>.
template <class N>
inline constexpr std::size_t numbers_per_wide = sizeof(precision::wide<N>) / sizeof(N);

/// x <- x, rounded to N
template <class N>
void round_all(precision::wide<N>* x, std::size_t n) {
  if constexpr (precision::StorageOnly<N>)
    for (std::size_t i = 0; i < n; ++i) x[i] = precision::widened(precision::rounded<N>(x[i]));
}

/// Numbers first .. last-1 of each of `samples` samples, which are `size` apart, in the type of
/// arithmetic: `x` itself, or a copy in `memory`, at the same offsets.
template <class N>
const precision::wide<N>* widen_samples(const N* x, std::size_t samples, std::size_t size,
                                        std::size_t first, std::size_t last,
                                        scratch<precision::wide<N>>& memory) {
  if constexpr (precision::StorageOnly<N>) {
    precision::wide<N>* const copy = memory.reserve(samples * size);
    for (std::size_t n = 0; n < samples; ++n)
      simd_for_each<precision::wide<N>>(n * size + first, n * size + last,
                                        [=](auto at) { at.put(copy, at(x)); });
    return copy;
  } else {
    return x;
  }
}

/// The same numbers of samples 2 m and 2 m + 1 as pairs, for each m; a missing last sample is zero.
/// Returns a copy in `memory`, at the same offsets in (samples / 2, size).
inline const bfloat_pair* pair_samples(const bfloat* x, std::size_t samples, std::size_t size,
                                       std::size_t first, std::size_t last,
                                       scratch<bfloat_pair>& memory) {
  constexpr int V = lanes<bfloat_pair>;
  const auto word = [](const bfloat* from) __attribute__((always_inline)) {
    return register_cast<bfloat_pairs<V>>(load<bfloat, V>(from)) >> 16;
  };
  bfloat_pair* const copy = memory.reserve((samples + 1) / 2 * size);
  for (std::size_t n = 0; n < samples; n += 2) {
    const bfloat *const even = x + n * size, *const odd = even + size;
    bfloat_pair* const pairs = copy + n / 2 * size;
    const bool both = n + 1 < samples;
    std::size_t i = first;
    for (; i + V <= last; i += V)
      store<bfloat_pair, V>(pairs + i,
                            both ? word(even + i) | word(odd + i) << 16 : word(even + i));
    for (; i < last; ++i)
      pairs[i] = even[i].bits | (both ? bfloat_pair{odd[i].bits} << 16 : bfloat_pair{});
  }
  return copy;
}

/// The operands X of products: pairs of samples, or what arithmetic is in.
template <class X, class N>
const X* operands_of(const N* x, std::size_t samples, std::size_t size, std::size_t first,
                     std::size_t last, scratch<X>& memory) {
  if constexpr (std::same_as<X, bfloat_pair>)
    return pair_samples(x, samples, size, first, last, memory);
  else
    return widen_samples(x, samples, size, first, last, memory);
}

/// Copies pixels of few channels, (pixels, C), into blocks of V.
template <int V, class Real>
const Real* widen_channels(const Real* x, int channels, std::size_t pixels, scratch<Real>& memory) {
  const auto n = static_cast<std::size_t>(channels), blocks = channel_blocks(channels, V);
  Real* const out = memory.reserve(blocks * pixels * V);  // (C/V, pixels, V)
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t i = 0; i < pixels; ++i)
      for (std::size_t v = 0; v < V; ++v)
        out[(b * pixels + i) * V + v] = b * V + v < n ? x[i * n + b * V + v] : Real{};
  return out;
}

/// Writes `size` numbers: `row` numbers of `from` behind `left` zeros, then zeros. Returns the end.
template <class Real>
Real* pad_row(const Real* from, std::ptrdiff_t row, std::ptrdiff_t left, std::ptrdiff_t size,
              Real* to) {
  const std::ptrdiff_t begin = std::min(left, size), end = std::min(size, left + row);
  std::fill(to, to + begin, Real{});
  std::copy(from, from + (end - begin), to + begin);
  std::fill(to + end, to + size, Real{});
  return to + size;
}

/// Copies rows low .. high-1 of every block of one sample, with `left` zero columns before them.
template <class Real>
void pad_rows(const Real* x,  // (C/B, H, W, B)
              const extent& in, int block, int low, int high, int left, int columns,
              Real* to) {  // (C/B, high - low, columns, B)
  const std::ptrdiff_t row = std::ptrdiff_t{block} * in.width;
  for (std::size_t b = 0; b < channel_blocks(in.channels, block); ++b, x += row * in.height)
    for (int i = low; i < high; ++i)
      to = pad_row(x + i * row, row, std::ptrdiff_t{block} * left, std::ptrdiff_t{block} * columns,
                   to);
}

/// Columns of an image with the padding, as many as the window reaches.
constexpr std::ptrdiff_t padded_columns(const convolution_problem& p) {
  return std::ptrdiff_t{p.out().width - 1} * p.stride + p.window;
}
/// Copies an image (H, W, C) with its padding, and with two rows more: a tile of three window rows
/// reads them beyond the window, and drops what it sums there.
template <class Real>
const Real* pad_image(const convolution_problem& p, const Real* x, scratch<Real>& memory) {
  const std::ptrdiff_t rows = std::ptrdiff_t{p.out().height - 1} * p.stride + p.window + 2,
                       row = std::ptrdiff_t{p.in.width} * p.in.channels,
                       left = std::ptrdiff_t{p.padding} * p.in.channels,
                       size = padded_columns(p) * p.in.channels;
  Real* const out = memory.reserve(static_cast<std::size_t>(rows * size));  // (rows, columns, C)
  for (std::ptrdiff_t i = 0; i < rows; ++i) {
    const std::ptrdiff_t h = i - p.padding;
    const bool inside = h >= 0 && h < p.in.height;
    pad_row(x + (inside ? h : 0) * row, inside ? row : 0, left, size, out + i * size);
  }
  return out;
}

/// The pixels that a 1x1 window with a stride reads. Copied together they are the input of the same
/// layer without the stride, whose rows are dense and adjacent. Other layers keep their stride here
/// as 1, and dense_layer() is the layer itself.
template <int V>
struct strided_pixels {
  constexpr explicit strided_pixels(const convolution_problem& p)
      : in(p.in),
        stride(p.window == 1 && p.padding == 0 && channel_block_size<V>(p.in.channels) == V
                   ? p.stride
                   : 1) {}

  /// The layer over the dense pixels.
  [[nodiscard]] constexpr convolution_problem dense_layer(const convolution_problem& p) const {
    const extent out = p.out();
    return stride == 1 ? p : convolution_problem{{in.channels, out.height, out.width}, p.filters};
  }
  /// f(pixel) for the dense pixels of one sample (C/V, H, W, V), in the order (C/V, H', W').
  template <class N, class F>
  void for_each_pixel_of(const N* x, const F& f) const {
    for (std::size_t b = 0; b < channel_blocks(in.channels, V); ++b, x += in.pixels() * V)
      for_each_pixel([&](std::ptrdiff_t at) { f(x + at); });
  }
  /// One sample.
  template <class N, class To>
  void gather(const N* x,         // (C/V, H, W, V)
              To* dense) const {  // (C/V, H', W', V)
    for_each_pixel_of(x, [&](const N* pixel) {
      store<To, V>(dense, load<N, V>(pixel));
      dense += V;
    });
  }
  /// The inverse; pixels between these become zero, or keep their values if it adds.
  template <class Real>
  void scatter(const Real* dense, Real* x, bool add) const {
    for (std::size_t b = 0; b < channel_blocks(in.channels, V); ++b, x += in.pixels() * V) {
      if (!add) std::fill(x, x + in.pixels() * V, Real{});
      for_each_pixel([&](std::ptrdiff_t at) {
        store<Real, V>(x + at, load<Real, V>(x + at) + load<Real, V>(dense));
        dense += V;
      });
    }
  }

  extent in;
  int stride;

 private:
  template <class F>
  void for_each_pixel(const F& f) const {
    for (int i = 0; i < in.height; i += stride)
      for (int j = 0; j < in.width; j += stride) f((std::ptrdiff_t{i} * in.width + j) * V);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
