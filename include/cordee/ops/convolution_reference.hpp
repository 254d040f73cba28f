// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution engine that is obviously right: ops/convolution.hpp's three sums as loops over
// plain NCHW. Every other engine is tested against it.
//
// One text for every device: a body computes one number, a device calls it for each. The sums are
// made in double on the CPU; on grids (ops/grid/convolution_reference.hpp) in what N is computed
// in.
#pragma once

#include <algorithm>

#include <cordee/core/config.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/convolution_bytes.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Where a number of an NCHW activation stands.
struct nchw_place {
  std::size_t sample;
  int channel, row, column;
};
constexpr nchw_place place_in(const extent& e, std::size_t at) {
  const auto below = [&at](int n) {
    const auto size = static_cast<std::size_t>(n), rest = at % size;
    at /= size;
    return static_cast<int>(rest);
  };
  const int column = below(e.width), row = below(e.height), channel = below(e.channels);
  return {at, channel, row, column};
}
constexpr std::size_t index_in(const extent& e, std::size_t sample, int channel, int row,
                               int column) {
  return ((sample * static_cast<std::size_t>(e.channels) + static_cast<std::size_t>(channel)) *
              static_cast<std::size_t>(e.height) +
          static_cast<std::size_t>(row)) *
             static_cast<std::size_t>(e.width) +
         static_cast<std::size_t>(column);
}
/// The weights (K, C, R, S) as that many samples of an image.
constexpr extent filter_of(const convolution_problem& p) {
  return {p.in.channels, p.window, p.window};
}
/// x[sample, c, h, l], zero outside the image.
template <Number N>
constexpr N pixel(const extent& e, const N* x, std::size_t sample, int c, int h, int l) {
  if (h < 0 || l < 0 || h >= e.height || l >= e.width) return N{};
  return x[index_in(e, sample, c, h, l)];
}
template <class Sum, Number N>
constexpr Sum product(N a, N b) {
  return static_cast<Sum>(widened(a)) * static_cast<Sum>(widened(b));
}

template <class Sum, Number N>
struct reference_fprop_at {
  convolution_problem p;
  const N* x;
  const N* packed;
  N* y;

  CORDEE_HOST_DEVICE void operator()(std::size_t at) const {
    const auto [n, k, i, j] = place_in(p.out(), at);
    Sum sum = 0;
    for (int c = 0; c < p.in.channels; ++c)
      for (int r = 0; r < p.window; ++r)
        for (int q = 0; q < p.window; ++q)
          sum += product<Sum>(
              packed[index_in(filter_of(p), static_cast<std::size_t>(k), c, r, q)],
              pixel(p.in, x, n, c, i * p.stride + r - p.padding, j * p.stride + q - p.padding));
    y[at] = rounded<N>(static_cast<wide<N>>(sum));
  }
};

/// `K`: an affine<float>, or where it is.
template <ByteSource In, SumSink Out, class K>
struct reference_bytes_at {
  convolution_problem p;
  const In* x;
  K scaling;
  const std::int8_t* packed;
  const float* scales;
  Out* y;

  CORDEE_HOST_DEVICE void operator()(std::size_t at) const {
    const auto [n, filter, i, j] = place_in(p.out(), at);
    const affine<float>& k = scaling_of(scaling);
    std::int32_t sum = 0;
    for (int r = 0; r < p.window; ++r)
      for (int q = 0; q < p.window; ++q) {
        const int h = i * p.stride + r - p.padding, l = j * p.stride + q - p.padding;
        if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) continue;
        for (int c = 0; c < p.in.channels; ++c)
          sum += packed[index_in(filter_of(p), static_cast<std::size_t>(filter), c, r, q)] *
                 (byte_of(x[index_in(p.in, n, c, h, l)], k) - k.zero);
      }
    if constexpr (std::same_as<Out, float>)
      y[at] = k.scale * scales[filter] * static_cast<float>(sum);
    else
      y[at] = sum;
  }
};

template <class Sum, Number N>
struct reference_dgrad_at {
  convolution_problem p;
  const N* dy;
  const N* packed;
  N* dx;
  into how;

  CORDEE_HOST_DEVICE void operator()(std::size_t at) const {
    const auto [n, c, h, l] = place_in(p.in, at);
    const extent out = p.out();
    Sum sum = how == into::add ? static_cast<Sum>(widened(dx[at])) : 0;
    for (int r = 0; r < p.window; ++r)
      for (int q = 0; q < p.window; ++q) {
        const int up = h + p.padding - r, left = l + p.padding - q;
        if (up < 0 || left < 0 || up % p.stride != 0 || left % p.stride != 0) continue;
        const int i = up / p.stride, j = left / p.stride;
        for (int k = 0; k < p.filters; ++k)
          sum += product<Sum>(packed[index_in(filter_of(p), static_cast<std::size_t>(k), c, r, q)],
                              pixel(out, dy, n, k, i, j));
      }
    dx[at] = rounded<N>(static_cast<wide<N>>(sum));
  }
};

/// Every `step`-th row of all samples' outputs, from `first` on, of the sum that one weight's
/// gradient is.
template <class Sum, Number N>
struct reference_wgrad_part {
  convolution_problem p;
  std::size_t samples;
  const N* x;
  const N* dy;

  CORDEE_HOST_DEVICE Sum operator()(std::size_t weight, std::size_t first, std::size_t step) const {
    const auto [k, c, r, q] = place_in(filter_of(p), weight);
    const extent out = p.out();
    const auto height = static_cast<std::size_t>(out.height);
    Sum sum = 0;
    for (std::size_t row = first; row < samples * height; row += step) {
      const std::size_t n = row / height;
      const int i = static_cast<int>(row % height);
      for (int j = 0; j < out.width; ++j)
        sum += product<Sum>(
            dy[index_in(out, n, static_cast<int>(k), i, j)],
            pixel(p.in, x, n, c, i * p.stride + r - p.padding, j * p.stride + q - p.padding));
    }
    return sum;
  }
};

}  // namespace detail

template <std::floating_point Real>
void reference_pack(const convolution_problem& p, const Real* master, Real* packed, cpu::stream) {
  std::copy_n(master, p.weights(), packed);
}

template <std::floating_point Real>
void reference_fprop(const convolution_problem& p, int samples, const Real* x, const Real* packed,
                     Real* y, cpu::stream s) {
  const detail::reference_fprop_at<double, Real> body{p, x, packed, y};
  parallel(s, static_cast<std::size_t>(samples) * p.out().size(), 1,
           [=](std::size_t first, std::size_t last) {
             for (std::size_t at = first; at < last; ++at) body(at);
           });
}

template <std::floating_point Real>
void reference_dgrad(const convolution_problem& p, int samples, const Real* dy, const Real* packed,
                     Real* dx, into how, cpu::stream s) {
  const detail::reference_dgrad_at<double, Real> body{p, dy, packed, dx, how};
  parallel(s, static_cast<std::size_t>(samples) * p.in.size(), 1,
           [=](std::size_t first, std::size_t last) {
             for (std::size_t at = first; at < last; ++at) body(at);
           });
}

template <std::floating_point Real>
void reference_wgrad(const convolution_problem& p, int samples, const Real* x, const Real* dy,
                     Real* dw, into how, cpu::stream s) {
  const detail::reference_wgrad_part<double, Real> part{p, static_cast<std::size_t>(samples), x,
                                                        dy};
  parallel(s, p.weights(), 1, [=](std::size_t first, std::size_t last) {
    for (std::size_t w = first; w < last; ++w)
      dw[w] =
          static_cast<Real>((how == into::add ? static_cast<double>(dw[w]) : 0) + part(w, 0, 1));
  });
}

inline void reference_pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                                 std::int8_t* packed, cpu::stream) {
  std::copy_n(weights, p.weights(), packed);
}

template <ByteSource In, SumSink Out>
void reference_fprop_bytes(const convolution_problem& p, int samples, const In* x,
                           const affine<float>& k, const std::int8_t* packed, const float* scales,
                           Out* y, cpu::stream s) {
  const detail::reference_bytes_at<In, Out, affine<float>> body{p, x, k, packed, scales, y};
  parallel(s, static_cast<std::size_t>(samples) * p.out().size(), 1,
           [=](std::size_t first, std::size_t last) {
             for (std::size_t at = first; at < last; ++at) body(at);
           });
}

/// Each stream's functions of these names are found by the streams that the callers hand over.
struct reference {
  static constexpr std::string_view name = "reference";

  template <class N>
  static constexpr int block(int /*channels*/) {
    return 1;
  }
  /// The image is the master itself, rounded: one form serves both directions.
  template <class N>
  static std::size_t packed_size(const convolution_problem& p) {
    return p.weights();
  }
  template <class N, class Real, class S>
  static void pack(const convolution_problem& p, const Real* master, N* packed, S s) {
    reference_pack(p, master, packed, s);
  }
  template <class N, class S = cpu::stream>
  static std::size_t workspace(const convolution_problem&, int /*samples*/, S) {
    return 0;
  }

  template <class N, class S>
  static void fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                    S s) {
    reference_fprop(p, samples, x, packed, y, s);
  }
  template <class N, class S>
  static void dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                    into how, S s) {
    reference_dgrad(p, samples, dy, packed, dx, how, s);
  }
  template <class N, class Real, class S>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, Real* dw,
                    into how, N* /*workspace*/, S s) {
    reference_wgrad(p, samples, x, dy, dw, how, s);
  }

  static std::size_t packed_bytes(const convolution_problem& p) { return p.weights(); }
  template <class S>
  static void pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                         std::int8_t* packed, S s) {
    reference_pack_bytes(p, weights, packed, s);
  }
  template <ByteSource In, SumSink Out, class S>
  static void fprop_bytes(const convolution_problem& p, int samples, const In* x, scaling_on<S> k,
                          const std::int8_t* packed, const float* scales, Out* y, S s) {
    detail::expect_byte_sums(p, k);
    reference_fprop_bytes(p, samples, x, k, packed, scales, y, s);
  }
};
static_assert(ConvolutionEngine<reference, float> && ConvolutionEngine<reference, double> &&
              ByteEngine<reference>);

}  // namespace cordee::inline CORDEE_ABI
