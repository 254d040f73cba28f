// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion of master weights to the layouts that GPU kernels read, and of weight gradients back.
//
//   packed[k, r, s, c] = master[k, c, r, s],  0 where k >= K or c >= C
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <Number From, Number To>
struct convert_op {
  const From* from;
  To* to;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    to[i] = precision::rounded<To>(static_cast<precision::wide<To>>(precision::widened(from[i])));
  }
};

/// The layout (K', R, S, C') of padded weights. Indices are 32 bits: a layer has fewer than 2^32
/// weights, and 32-bit divisions are several times faster than 64-bit ones.
struct krsc_layout {
  unsigned channels, filters, taps, padded_channels, padded_filters;

  krsc_layout(const convolution_problem& p, int padded_channels, int padded_filters)
      : channels(static_cast<unsigned>(p.in.channels)),
        filters(static_cast<unsigned>(p.filters)),
        taps(static_cast<unsigned>(p.window * p.window)),
        padded_channels(static_cast<unsigned>(padded_channels)),
        padded_filters(static_cast<unsigned>(padded_filters)) {
    expects(padded_channels >= p.in.channels && padded_filters >= p.filters,
            "pack_krsc: fewer padded channels or filters than the layer has");
  }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t size() const {
    return std::size_t{padded_filters} * taps * padded_channels;
  }
  /// Offset of the weight with this index in (K, C, R, S).
  [[nodiscard]] CORDEE_DEVICE unsigned offset_of(unsigned index) const {
    const unsigned tap = index % taps, row = index / taps, c = row % channels, k = row / channels;
    return (k * taps + tap) * padded_channels + c;
  }
};

template <Number From, Number To>
struct pack_krsc_op {
  krsc_layout layout;
  const From* master;
  To* packed;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto index = static_cast<unsigned>(i);
    const unsigned c = index % layout.padded_channels, row = index / layout.padded_channels;
    const unsigned tap = row % layout.taps, k = row / layout.taps;
    packed[i] = c < layout.channels && k < layout.filters
                    ? precision::rounded<To>(static_cast<precision::wide<To>>(precision::widened(
                          master[(k * layout.channels + c) * layout.taps + tap])))
                    : To{};
  }
};

template <Number From, std::floating_point Real>
struct unpack_krsc_op {
  krsc_layout layout;
  const From* packed;
  Real* dw;
  write_mode mode;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto x =
        static_cast<Real>(precision::widened(packed[layout.offset_of(static_cast<unsigned>(i))]));
    dw[i] = mode == write_mode::add ? dw[i] + x : x;
  }
};

/// to[i] <- from[i], rounded to To.
template <Number From, Number To, GpuStream S>
void convert(std::size_t n, const From* from, To* to, S s) {
  for_each(s, n, convert_op<From, To>{from, to});
}

/// Packs weights (K, C, R, S) as (K', R, S, C').
template <Number From, Number To, GpuStream S>
void pack_krsc(const convolution_problem& p, int padded_channels, int padded_filters,
               const From* master, To* packed, S s) {
  const krsc_layout layout(p, padded_channels, padded_filters);
  for_each(s, layout.size(), pack_krsc_op<From, To>{layout, master, packed});
}

/// Unpacks weight gradients (K', R, S, C') to (K, C, R, S): overwrites dw or adds to it.
template <Number From, std::floating_point Real, GpuStream S>
void unpack_krsc(const convolution_problem& p, int padded_channels, int padded_filters,
                 const From* dw_krsc, Real* dw, write_mode mode, S s) {
  const krsc_layout layout(p, padded_channels, padded_filters);
  for_each(s, p.weights(), unpack_krsc_op<From, Real>{layout, dw_krsc, dw, mode});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
