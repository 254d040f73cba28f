// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far the ranks are from agreeing: the root mean square over ranks of |x_i - mean of x|.
#pragma once

#include <cmath>

#include <cordee/comm/agree.hpp>

namespace cordee::inline CORDEE_ABI {

/// Collective; the same number on every rank. Moves as many bytes as an exact mean does.
template <class Link, class Real, Device D>
double consensus_distance(const Link& link, const D& device, span_on<Real, D> plane,
                          typename D::stream s) {
  buffer<Real, D> centre(device, plane.size);
  device.copy(centre.span().data, plane.data, plane.size * sizeof(Real), s);
  mean(link, device, centre.span(), s);
  const auto own = on_host<Real, D>(device, plane, s),
             at = on_host<Real, D>(device, centre.span(), s);
  std::array<double, 1> squares{};
  for (std::size_t i = 0; i < plane.size; ++i) {
    const double off = static_cast<double>(own[i]) - static_cast<double>(at[i]);
    squares[0] += off * off;
  }
  agree(link, squares, sum{});
  return std::sqrt(squares[0] / link.size());
}

}  // namespace cordee::inline CORDEE_ABI
