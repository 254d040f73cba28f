// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where engine `direct` keeps its numbers: blocks of activations, a thread's scratch. Its weights:
// packed_form.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Channels to a block of an activation: V, or all of them where they are few, as in the network's
/// input.
template <int V>
constexpr int direct_block(int channels) {
  return channels <= 4 ? channels : V;
}

/// Memory of one thread that grows to what was ever asked for.
template <class Real>
class scratch {
 public:
  Real* reserve(std::size_t numbers) {
    constexpr std::size_t line = 64 / sizeof(Real);
    if (memory_.size() < numbers + line) memory_.assign(numbers + line, Real{});
    const auto past = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(Real) % line;
    return memory_.data() + (line - past) % line;
  }

 private:
  std::vector<Real> memory_;
};

/// Pixels of few channels, in blocks of V.
template <int V, class Real>
const Real* widen(const Real* x, int channels, std::size_t pixels, scratch<Real>& to) {
  const auto n = static_cast<std::size_t>(channels), blocks = blocks_of(channels, V);
  Real* const out = to.reserve(blocks * pixels * V);
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t i = 0; i < pixels; ++i)
      for (std::size_t v = 0; v < V; ++v)
        out[(b * pixels + i) * V + v] = b * V + v < n ? x[i * n + b * V + v] : Real{};
  return out;
}

/// A row of `row` numbers from place `left` on, zeros around it, `size` in all. Returns its end.
template <class Real>
Real* pad_row(const Real* from, std::ptrdiff_t row, std::ptrdiff_t left, std::ptrdiff_t size,
              Real* to) {
  const std::ptrdiff_t begin = std::min(left, size), end = std::min(size, left + row);
  std::fill(to, to + begin, Real{});
  std::copy(from, from + (end - begin), to + begin);
  std::fill(to + end, to + size, Real{});
  return to + size;
}

/// Rows low .. high-1 of every block with `left` zero columns before them, `columns` in all.
template <class Real>
void pad_rows(const Real* x, const extent& in, int block, int low, int high, int left, int columns,
              Real* to) {
  const std::ptrdiff_t row = std::ptrdiff_t{block} * in.width;
  for (std::size_t b = 0; b < blocks_of(in.channels, block); ++b, x += row * in.height)
    for (int i = low; i < high; ++i)
      to = pad_row(x + i * row, row, std::ptrdiff_t{block} * left, std::ptrdiff_t{block} * columns,
                   to);
}

/// Columns of an image with the padding, as many as the window meets.
constexpr std::ptrdiff_t padded_columns(const convolution_problem& p) {
  return std::ptrdiff_t{p.out().width - 1} * p.stride + p.window;
}
/// An image (H, W, C) with the padding, and two rows more for taps that are not wanted.
template <class Real>
const Real* pad_image(const convolution_problem& p, const Real* x, scratch<Real>& to) {
  const std::ptrdiff_t rows = std::ptrdiff_t{p.out().height - 1} * p.stride + p.window + 2,
                       row = std::ptrdiff_t{p.in.width} * p.in.channels,
                       left = std::ptrdiff_t{p.padding} * p.in.channels,
                       size = padded_columns(p) * p.in.channels;
  Real* const out = to.reserve(static_cast<std::size_t>(rows * size));
  for (std::ptrdiff_t i = 0; i < rows; ++i) {
    const std::ptrdiff_t h = i - p.padding;
    const bool inside = h >= 0 && h < p.in.height;
    pad_row(x + (inside ? h : 0) * row, inside ? row : 0, left, size, out + i * size);
  }
  return out;
}

/// The pixels that a lone tap behind a stride meets. Moved together they are the input of the same
/// layer without the stride, whose rows lie dense and follow one another.
template <int V>
struct met_pixels {
  explicit met_pixels(const convolution_problem& p)
      : in(p.in),
        stride(p.window == 1 && p.padding == 0 && direct_block<V>(p.in.channels) == V ? p.stride
                                                                                      : 1) {}

  /// The layer over them.
  [[nodiscard]] convolution_problem layer(const convolution_problem& p) const {
    const extent out = p.out();
    return stride == 1 ? p : convolution_problem{{in.channels, out.height, out.width}, p.filters};
  }
  template <class Real>
  void gather(const Real* x, Real* to) const {
    for (std::size_t b = 0; b < blocks_of(in.channels, V); ++b, x += in.pixels() * V)
      each([&](std::ptrdiff_t at) {
        store<Real, V>(to, load<Real, V>(x + at));
        to += V;
      });
  }
  /// Back to where they stood; what lies between them is zero, or what it was.
  template <class Real>
  void scatter(const Real* from, Real* x, bool add) const {
    for (std::size_t b = 0; b < blocks_of(in.channels, V); ++b, x += in.pixels() * V) {
      if (!add) std::fill(x, x + in.pixels() * V, Real{});
      each([&](std::ptrdiff_t at) {
        store<Real, V>(x + at, load<Real, V>(x + at) + load<Real, V>(from));
        from += V;
      });
    }
  }

  extent in;
  int stride;

 private:
  template <class F>
  void each(const F& f) const {
    for (int i = 0; i < in.height; i += stride)
      for (int j = 0; j < in.width; j += stride) f((std::ptrdiff_t{i} * in.width + j) * V);
  }
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
