// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The reference convolution engine: ops/convolution.hpp's three sums as loops over plain NCHW.
// Every other engine is tested against it.
//
// The code is the same for every device: a body computes one number, and a device calls it for
// each. Sums are computed in double on the CPU, and in wide<N> on a GPU (gpu.hpp).
#pragma once

#include <cstring>

#include <cordee/core/config.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/default.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The indices of a number of an NCHW tensor.
struct nchw_index {
  std::size_t sample;
  int channel, row, column;
};
constexpr nchw_index nchw_index_of(const extent& e, std::size_t offset) {
  const auto next_index = [&offset](int n) {
    const auto size = static_cast<std::size_t>(n), index = offset % size;
    offset /= size;
    return static_cast<int>(index);
  };
  const int column = next_index(e.width), row = next_index(e.height),
            channel = next_index(e.channels);
  return {offset, channel, row, column};
}
constexpr std::size_t nchw_offset(const extent& e, std::size_t sample, int channel, int row,
                                  int column) {
  return ((sample * static_cast<std::size_t>(e.channels) + static_cast<std::size_t>(channel)) *
              static_cast<std::size_t>(e.height) +
          static_cast<std::size_t>(row)) *
             static_cast<std::size_t>(e.width) +
         static_cast<std::size_t>(column);
}
/// The extent of one filter: weights (K, C, R, S) are indexed as K samples of it.
constexpr extent filter_extent(const convolution_problem& p) {
  return {p.in.channels, p.window, p.window};
}
/// x[sample, c, h, l], zero outside the image.
template <Number N>
constexpr N pixel(const extent& e, const N* x, std::size_t sample, int c, int h, int l) {
  if (h < 0 || l < 0 || h >= e.height || l >= e.width) return N{};
  return x[nchw_offset(e, sample, c, h, l)];
}
template <class Sum, Number N>
constexpr Sum product(N a, N b) {
  return static_cast<Sum>(precision::widened(a)) * static_cast<Sum>(precision::widened(b));
}

template <class Sum, Number N>
struct reference_fprop_op {
  convolution_problem p;
  const N* x;       // (samples, C, H, W)
  const N* packed;  // (K, C, R, S)
  N* y;             // (samples, K, I, J)

  CORDEE_HOST_DEVICE void operator()(std::size_t index) const {
    const auto [n, k, i, j] = nchw_index_of(p.out(), index);
    Sum sum = 0;
    for (int c = 0; c < p.in.channels; ++c)
      for (int r = 0; r < p.window; ++r)
        for (int q = 0; q < p.window; ++q)
          sum += product<Sum>(
              packed[nchw_offset(filter_extent(p), static_cast<std::size_t>(k), c, r, q)],
              pixel(p.in, x, n, c, i * p.stride + r - p.padding, j * p.stride + q - p.padding));
    y[index] = precision::rounded<N>(static_cast<precision::wide<N>>(sum));
  }
};

/// `K`: an affine_quantizer<float>, or a pointer to one in device memory.
template <ByteConvolutionInput In, ByteConvolutionOutput Out, class K>
struct reference_bytes_op {
  convolution_problem p;
  const In* x;  // (samples, C, H, W)
  K quantizer;
  const std::int8_t* packed;  // (K, C, R, S)
  const float* scales;        // (K)
  Out* y;                     // (samples, K, I, J)

  CORDEE_HOST_DEVICE void operator()(std::size_t index) const {
    const auto [n, filter, i, j] = nchw_index_of(p.out(), index);
    const affine_quantizer<float>& k = dereferenced(quantizer);
    std::int32_t sum = 0;
    for (int r = 0; r < p.window; ++r)
      for (int q = 0; q < p.window; ++q) {
        const int h = i * p.stride + r - p.padding, l = j * p.stride + q - p.padding;
        if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) continue;
        for (int c = 0; c < p.in.channels; ++c)
          sum += packed[nchw_offset(filter_extent(p), static_cast<std::size_t>(filter), c, r, q)] *
                 (to_byte(x[nchw_offset(p.in, n, c, h, l)], k) - k.zero_point);
      }
    if constexpr (std::same_as<Out, float>)
      y[index] = k.scale * scales[filter] * static_cast<float>(sum);
    else
      y[index] = sum;
  }
};

template <class Sum, Number N>
struct reference_dgrad_op {
  convolution_problem p;
  const N* dy;      // (samples, K, I, J)
  const N* packed;  // (K, C, R, S)
  N* dx;            // (samples, C, H, W)
  write_mode mode;

  CORDEE_HOST_DEVICE void operator()(std::size_t index) const {
    const auto [n, c, h, l] = nchw_index_of(p.in, index);
    const extent out = p.out();
    Sum sum = mode == write_mode::add ? static_cast<Sum>(precision::widened(dx[index])) : 0;
    for (int r = 0; r < p.window; ++r)
      for (int q = 0; q < p.window; ++q) {
        const int up = h + p.padding - r, left = l + p.padding - q;
        if (up < 0 || left < 0 || up % p.stride != 0 || left % p.stride != 0) continue;
        const int i = up / p.stride, j = left / p.stride;
        for (int k = 0; k < p.filters; ++k)
          sum += product<Sum>(
              packed[nchw_offset(filter_extent(p), static_cast<std::size_t>(k), c, r, q)],
              pixel(out, dy, n, k, i, j));
      }
    dx[index] = precision::rounded<N>(static_cast<precision::wide<N>>(sum));
  }
};

/// Part `first` of `parts` of the sum of one weight's gradient. Adjacent parts take adjacent pixels
/// of a row, then of further rows; those that do not fill a row have none.
template <class Sum, Number N>
struct reference_wgrad_sum {
  convolution_problem p;
  std::size_t samples;
  const N* x;   // (samples, C, H, W)
  const N* dy;  // (samples, K, I, J)

  CORDEE_HOST_DEVICE Sum operator()(std::size_t weight, std::size_t first,
                                    std::size_t parts) const {
    const auto [k, c, r, q] = nchw_index_of(filter_extent(p), weight);
    const extent out = p.out();
    const auto height = static_cast<std::size_t>(out.height),
               across = std::min(parts, static_cast<std::size_t>(out.width)), rows = parts / across;
    if (first >= across * rows) return 0;
    Sum sum = 0;
    for (std::size_t row = first / across; row < samples * height; row += rows) {
      const std::size_t n = row / height;
      const int i = static_cast<int>(row % height);
      for (int j = static_cast<int>(first % across); j < out.width; j += static_cast<int>(across))
        sum += product<Sum>(
            dy[nchw_offset(out, n, static_cast<int>(k), i, j)],
            pixel(p.in, x, n, c, i * p.stride + r - p.padding, j * p.stride + q - p.padding));
    }
    return sum;
  }
};

/// master (K, C, R, S), packed (K, C, R, S)
template <Number N>
void reference_pack(const convolution_problem& p, const precision::wide<N>* master, N* packed,
                    cpu::stream) {
  for (std::size_t k = 0; k < p.weights(); ++k) packed[k] = precision::rounded<N>(master[k]);
}

/// x (samples, C, H, W), packed (K, C, R, S), y (samples, K, I, J)
template <Number N>
void reference_fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                     cpu::stream s) {
  const reference_fprop_op<double, N> body{p, x, packed, y};
  device::parallel_chunks(s, static_cast<std::size_t>(samples) * p.out().size(), 1,
                          [=](std::size_t first, std::size_t last) {
                            for (std::size_t i = first; i < last; ++i) body(i);
                          });
}

/// dy (samples, K, I, J), packed (K, C, R, S), dx (samples, C, H, W)
template <Number N>
void reference_dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                     write_mode mode, cpu::stream s) {
  const reference_dgrad_op<double, N> body{p, dy, packed, dx, mode};
  device::parallel_chunks(s, static_cast<std::size_t>(samples) * p.in.size(), 1,
                          [=](std::size_t first, std::size_t last) {
                            for (std::size_t i = first; i < last; ++i) body(i);
                          });
}

/// x (samples, C, H, W), dy (samples, K, I, J), dw (K, C, R, S)
template <Number N>
void reference_wgrad(const convolution_problem& p, int samples, const N* x, const N* dy,
                     precision::wide<N>* dw, write_mode mode, cpu::stream s) {
  const reference_wgrad_sum<double, N> part{p, static_cast<std::size_t>(samples), x, dy};
  device::parallel_chunks(s, p.weights(), 1, [=](std::size_t first, std::size_t last) {
    for (std::size_t w = first; w < last; ++w)
      dw[w] = static_cast<precision::wide<N>>(
          (mode == write_mode::add ? static_cast<double>(dw[w]) : 0) + part(w, 0, 1));
  });
}

/// weights (K, C, R, S), packed (K, C, R, S)
inline void reference_pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                                 std::int8_t* packed, cpu::stream) {
  std::memcpy(packed, weights, p.weights());
}

/// x (samples, C, H, W), packed (K, C, R, S), scales (K), y (samples, K, I, J)
template <ByteConvolutionInput In, ByteConvolutionOutput Out>
void reference_fprop_bytes(const convolution_problem& p, int samples, const In* x,
                           const affine_quantizer<float>& k, const std::int8_t* packed,
                           const float* scales, Out* y, cpu::stream s) {
  const reference_bytes_op<In, Out, affine_quantizer<float>> body{p, x, k, packed, scales, y};
  device::parallel_chunks(s, static_cast<std::size_t>(samples) * p.out().size(), 1,
                          [=](std::size_t first, std::size_t last) {
                            for (std::size_t i = first; i < last; ++i) body(i);
                          });
}

}  // namespace detail::ops

/// Engine to test others against. The functions reference_*(..., s) are found by argument-dependent
/// lookup on the stream's type: above for cpu::stream, in gpu.hpp for GPU streams.
struct reference {
  static constexpr std::string_view name = "reference";  ///< See ConvolutionEngine.

  /// Returns 1: activations are NCHW.
  template <class N>
  static constexpr int block(int /*channels*/) {
    return 1;
  }
  /// Returns the number of weights: packed weights are the master weights, rounded to N, for fprop
  /// and dgrad alike.
  template <class N>
  static std::size_t packed_size(const convolution_problem& p) {
    return p.weights();
  }
  /// Rounds the master weights to N.
  template <class N, class Real, class S>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   N* packed,           // (K, C, R, S)
                   S s) {
    reference_pack(p, master, packed, s);
  }
  /// Returns 0: needs no workspace.
  template <class N, class S = cpu::stream>
  static std::size_t workspace(const convolution_problem&, int /*samples*/, S) {
    return 0;
  }

  /// See ConvolutionEngine.
  template <class N, class S>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (samples, C, H, W)
                    const N* packed,  // (K, C, R, S)
                    N* y,             // (samples, K, I, J)
                    S s) {
    reference_fprop(p, samples, x, packed, y, s);
  }
  /// See ConvolutionEngine.
  template <class N, class S>
  static void dgrad(const convolution_problem& p, int samples,
                    const N* dy,      // (samples, K, I, J)
                    const N* packed,  // (K, C, R, S)
                    N* dx,            // (samples, C, H, W)
                    write_mode mode, S s) {
    reference_dgrad(p, samples, dy, packed, dx, mode, s);
  }
  /// See ConvolutionEngine.
  template <class N, class Real, class S>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,   // (samples, C, H, W)
                    const N* dy,  // (samples, K, I, J)
                    Real* dw,     // (K, C, R, S)
                    write_mode mode, N* /*workspace*/, S s) {
    reference_wgrad(p, samples, x, dy, dw, mode, s);
  }

  /// Returns the number of weights.
  static std::size_t packed_bytes(const convolution_problem& p) { return p.weights(); }
  /// Copies the weights.
  template <class S>
  static void pack_bytes(const convolution_problem& p,
                         const std::int8_t* weights,  // (K, C, R, S)
                         std::int8_t* packed,         // (K, C, R, S)
                         S s) {
    reference_pack_bytes(p, weights, packed, s);
  }
  /// See ByteEngine (ops/convolution_bytes.hpp).
  /// @throws usage_error if a sum has more than 66,000 terms, or on the CPU if a quantizer's output
  /// is not unsigned bytes.
  template <detail::ops::ByteConvolutionInput In, detail::ops::ByteConvolutionOutput Out, class S>
  static void fprop_bytes(const convolution_problem& p, int samples,
                          const In* x,  // (samples, C, H, W)
                          detail::ops::quantizer_on<S> k,
                          const std::int8_t* packed,  // (K, C, R, S)
                          const float* scales,        // (K)
                          Out* y,                     // (samples, K, I, J)
                          S s) {
    detail::ops::check_byte_problem(p, k);
    reference_fprop_bytes(p, samples, x, k, packed, scales, y, s);
  }
};
static_assert(ConvolutionEngine<reference, float> && ConvolutionEngine<reference, double> &&
              detail::ops::ByteEngine<reference>);

namespace detail::ops {
template <>
struct engine_type<engine_name::reference> {
  using type = reference;
};
}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
