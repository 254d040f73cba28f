// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers from masters to what kernels on grids read, and gradients back.
//
//   packed[k, r, s, c] = master[k, c, r, s],  0 where k >= K or c >= C
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

template <Number From, Number To>
struct convert_at {
  const From* from;
  To* to;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    to[i] = rounded<To>(static_cast<wide<To>>(widened(from[i])));
  }
};

/// The padded weights (K', R, S, C') of a problem, and the canonical place of each. A bank of
/// filters has fewer than 2^32 numbers, and 32 bits are divided several times quicker than 64.
struct krsc {
  unsigned channels, filters, taps, padded_channels, padded_filters;

  krsc(const convolution_problem& p, int padded_channels, int padded_filters)
      : channels(static_cast<unsigned>(p.in.channels)),
        filters(static_cast<unsigned>(p.filters)),
        taps(static_cast<unsigned>(p.window * p.window)),
        padded_channels(static_cast<unsigned>(padded_channels)),
        padded_filters(static_cast<unsigned>(padded_filters)) {
    expects(padded_channels >= p.in.channels && padded_filters >= p.filters,
            "packing: padding does not take channels or filters away");
  }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t size() const {
    return std::size_t{padded_filters} * taps * padded_channels;
  }
  /// Where weight `at` of the canonical order lies.
  [[nodiscard]] CORDEE_DEVICE unsigned of(unsigned at) const {
    const unsigned tap = at % taps, row = at / taps, c = row % channels, k = row / channels;
    return (k * taps + tap) * padded_channels + c;
  }
};

template <Number From, Number To>
struct pack_krsc_at {
  krsc to_place;
  const From* master;
  To* packed;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<unsigned>(i);
    const unsigned c = at % to_place.padded_channels, row = at / to_place.padded_channels;
    const unsigned tap = row % to_place.taps, k = row / to_place.taps;
    packed[i] = c < to_place.channels && k < to_place.filters
                    ? rounded<To>(static_cast<wide<To>>(
                          widened(master[(k * to_place.channels + c) * to_place.taps + tap])))
                    : To{};
  }
};

template <Number From, std::floating_point Real>
struct unpack_krsc_at {
  krsc from_place;
  const From* packed;
  Real* canonical;
  into how;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto x = static_cast<Real>(widened(packed[from_place.of(static_cast<unsigned>(i))]));
    canonical[i] = how == into::add ? canonical[i] + x : x;
  }
};

}  // namespace detail

/// to[i] <- from[i], rounded.
template <Number From, Number To, GridStream S>
void convert(std::size_t n, const From* from, To* to, S s) {
  for_each(s, n, detail::convert_at<From, To>{from, to});
}

/// Weights (K, C, R, S) as a convolution over NHWC reads them: (K', R, S, C').
template <Number From, Number To, GridStream S>
void pack_krsc(const convolution_problem& p, int padded_channels, int padded_filters,
               const From* master, To* packed, S s) {
  const detail::krsc place(p, padded_channels, padded_filters);
  for_each(s, place.size(), detail::pack_krsc_at<From, To>{place, master, packed});
}

/// Weight gradients (K', R, S, C') in canonical order.
template <Number From, std::floating_point Real, GridStream S>
void unpack_krsc(const convolution_problem& p, int padded_channels, int padded_filters,
                 const From* dw_krsc, Real* dw, into how, S s) {
  const detail::krsc place(p, padded_channels, padded_filters);
  for_each(s, p.weights(), detail::unpack_krsc_at<From, Real>{place, dw_krsc, dw, how});
}

}  // namespace cordee::inline CORDEE_ABI
