// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over planes of weights and gradients by which sharpness_aware climbs.
#pragma once

#include <cstddef>

#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// g <- T g
template <class Real>
struct scaled_by_size {
  const Real* w;
  Real* g;
  Real eta;
  bool idle = false;

  [[nodiscard]] CORDEE_HOST_DEVICE scaled_by_size for_segment(kind what, std::size_t) const {
    return {w, g, eta, !(kind::weight | kind::scale)(what)};
  }
  [[nodiscard]] CORDEE_HOST_DEVICE bool is_idle() const { return idle; }
  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number x = at(w), size = at.at_least(x, 0) + at.at_least(Real{-1} * x, 0);
    at.put(g, at.clamped(at(g) * (size + eta)));
  }
};
/// to <- x + scale y
template <class Real>
struct moved_by {
  const Real *x, *y;
  Real* to;
  Real scale;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(to, at.clamped(at(x) + at.clamped(scale * at(y))));
  }
};
/// The same with a scale in the device's memory.
template <class Real>
struct moved_uphill {
  const Real *x, *y;
  Real* to;
  const double* scale;

  [[nodiscard]] CORDEE_HOST_DEVICE moved_by<Real> for_segment(kind, std::size_t) const {
    return {x, y, to, static_cast<Real>(*scale)};
  }
};
/// squares[0] <- radius / the root of the sum of all; 0 where that is not finite
struct climb_scale_op {
  double* squares;
  std::size_t count;
  double radius;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k) sum += squares[k];
    const double scale = radius / core::sqrt(sum);
    squares[0] = core::isfinite(scale) ? scale : 0;
  }
};
/// to <- to + x + scale y
template <class Real>
struct added_with {
  const Real *x, *y;
  Real* to;
  Real scale;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(to, at(to) + at(x) + scale * at(y));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
