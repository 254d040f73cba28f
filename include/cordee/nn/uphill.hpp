// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over planes of weights and gradients by which sharpness_aware climbs.
#pragma once

#include <cstddef>

#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// g <- T g
template <class Real>
struct scaled_by_size {
  const Real* w;
  Real* g;
  Real eta;
  bool idle = false;

  [[nodiscard]] scaled_by_size for_segment(kind what, std::size_t) const {
    return {w, g, eta, !(kind::weight | kind::scale)(what)};
  }
  [[nodiscard]] bool is_idle() const { return idle; }
  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number x = at(w), size = at.at_least(x, 0) + at.at_least(-x, 0);
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
