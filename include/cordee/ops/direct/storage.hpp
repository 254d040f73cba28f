// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where engine `direct` keeps its numbers: blocks of activations, packed weights, a thread's
// scratch.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/layout.hpp>

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

/// f(0) .. f(n-1), without a loop where n is a type's.
template <class N, class F>
[[gnu::always_inline]] inline void each_of(N n, const F& f) {
  if constexpr (std::is_same_v<N, int>) {
    for (std::ptrdiff_t i = 0; i < n; ++i) f(i);
  } else {
#pragma GCC unroll 16
    for (std::ptrdiff_t i = 0; i < N::value; ++i) f(i);
  }
}

/// Where the weights of filter block 0 stand in a packed form, (K / V, C / B, R, S, B, V) with
/// B = direct_block(C).
template <int V>
struct packed_form {
  int outputs = 0, inputs = 0, window = 0;

  [[nodiscard]] constexpr std::ptrdiff_t block_size() const {
    const int block = direct_block<V>(inputs);
    return std::ptrdiff_t{V} * window * window * block * ((inputs + block - 1) / block);
  }
  [[nodiscard]] constexpr std::size_t size() const {
    return blocks_of(outputs, V) * static_cast<std::size_t>(block_size());
  }
  /// From tap to tap of a window row.
  [[nodiscard]] constexpr std::ptrdiff_t tap_size() const {
    return std::ptrdiff_t{V} * direct_block<V>(inputs);
  }
  /// The V weights of input channel c at tap (r, s).
  [[nodiscard]] constexpr std::ptrdiff_t at(int c, int r, int s) const {
    const int block = direct_block<V>(inputs);
    return ((std::ptrdiff_t{c / block} * window + r) * window + s) * block * V + c % block * V;
  }
  /// Weights of filter k, (channels, taps) from channel c on: where the first of them stands in
  /// canonical order, and here, counted from the first block that was asked for. The next channel
  /// stands V further on, the next tap tap_size().
  struct run {
    int k, c;
    std::ptrdiff_t canonical, at;
  };
  /// f(run, channels) for filter blocks first .. last-1, V filters at a block of inputs before the
  /// next: in either order what is near is used up before it is gone. A full block's channels are
  /// a constant, for each_of.
  template <class F>
  void each_run(std::size_t first, std::size_t last, const F& f) const {
    const int block = direct_block<V>(inputs), taps = window * window;
    for (std::size_t b = first; b < last; ++b)
      for (int c = 0; c < inputs; c += block)
        for (int v = 0, k = static_cast<int>(b) * V; v < V && k < outputs; ++v, ++k) {
          const run here{k, c, (std::ptrdiff_t{k} * inputs + c) * taps,
                         static_cast<std::ptrdiff_t>(b - first) * block_size() + at(c, 0, 0) + v};
          const int channels = std::min(block, inputs - c);
          if (channels == V)
            f(here, std::integral_constant<int, V>{});
          else
            f(here, channels);
        }
  }
  /// Filter blocks first .. last-1, the first of them at `packed`, to canonical order.
  template <class Real>
  void unpack(std::size_t first, std::size_t last, const Real* packed, Real* to, into how) const {
    const std::ptrdiff_t taps = std::ptrdiff_t{window} * window;
    for (std::size_t b = first; b < last; ++b, packed += block_size()) {
      if constexpr (std::has_single_bit(unsigned{V}) && V <= lanes<Real>)
        if (tap_size() == V * V && inputs % V == 0 &&
            (b + 1) * V <= static_cast<std::size_t>(outputs)) {
          unpack_whole(packed, to + static_cast<std::ptrdiff_t>(b) * V * inputs * taps, how);
          continue;
        }
      each_run(b, b + 1, [&](const run& here, auto channels) {
        const Real* from = packed + here.at;
        Real* weight = to + here.canonical;
        for (std::ptrdiff_t t = 0; t < taps; ++t, ++weight, from += tap_size())
          each_of(channels, [&](std::ptrdiff_t c) {
            weight[c * taps] = (how == into::add ? weight[c * taps] : Real{}) + from[c * V];
          });
      });
    }
  }

 private:
  /// V filters of whole blocks of channels, V weights that follow one another of each at a time.
  template <class Real>
  void unpack_whole(const Real* packed, Real* to, into how) const {
    const std::ptrdiff_t taps = std::ptrdiff_t{window} * window, filter = inputs * taps;
    for (int block = 0; block < inputs; block += V, packed += taps * tap_size()) {
      const Real* channel = packed;
      for (std::ptrdiff_t done = 0, tap = 0; done < taps; ++done, to += V) {
        vec<Real, V> square[V];
        for (int i = 0; i < V; ++i) {
          square[i] = load<Real, V>(channel + tap * tap_size());
          if (++tap == taps) tap = 0, channel += V;
        }
        transpose<Real, V>(square);
        for (int k = 0; k < V; ++k) {
          Real* const weights = to + k * filter;
          if (how == into::add) square[k] += load<Real, V>(weights);
          store<Real, V>(weights, square[k]);
        }
      }
    }
  }
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
