// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far the ranks' vectors x_i are apart: the root mean square over ranks of |x_i - mean of x|.
#pragma once

#include <array>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Collective; returns the same number on every rank. Moves as many bytes as an exact mean does.
template <class Communicator, class Real, Device D>
double consensus_distance(const Communicator& comm, const D& device, span_on<Real, D> x,
                          typename D::stream s) {
  buffer<Real, D> mean(device, x.size);
  device.copy(mean.span().data, x.data, x.size * sizeof(Real), s);
  allreduce_mean(comm, device, mean.span(), s);
  const auto host_x = copy_to_host<Real, D>(device, x, s);
  const auto host_mean = copy_to_host<Real, D>(device, mean.span(), s);
  std::array<double, 1> squares{};
  for (std::size_t i = 0; i < x.size; ++i) {
    const double off = static_cast<double>(host_x[i]) - static_cast<double>(host_mean[i]);
    squares[0] += off * off;
  }
  allreduce_host(comm, squares, reduce_op::sum);
  return core::sqrt(squares[0] / comm.size());
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
