// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A topology whose ranks give themselves more weight: it mixes more slowly and is stable under more
// momentum.
//
//   W_theta = (1 - theta) I + theta W
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cordee/comm/topologies/topology.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

namespace topologies {

/// Another topology with its weights times `theta`; the rank's own weight is the rest.
template <Topology T>
struct lazy {
  /// As the topology inside.
  static constexpr bool symmetric = detail::comm::SymmetricTopology<T>;
  /// As the topology inside.
  static constexpr bool uniform_matching = detail::comm::UniformMatching<T>;

  T topology{};  ///< The topology inside.
  /// Factor of the weights. Range: 0 < theta <= 1, else usage_error.
  double theta = 0.5;

  /// As the topology inside.
  [[nodiscard]] int period(int size) const { return topology.period(size); }
  /// As the topology inside.
  [[nodiscard]] std::vector<int> dimensions(int size) const
    requires detail::comm::TranslationInvariant<T>
  {
    return topology.dimensions(size);
  }
  /// The edges of the topology inside, with `theta` times the weight.
  /// @throws usage_error for `theta` outside its range.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t round) const {
    expects(theta > 0 && theta <= 1, "lazy: theta must be above 0 and at most 1");
    const auto& unscaled = topology.in_edges(rank, size, round);
    std::vector<edge> in(unscaled.begin(), unscaled.end());
    for (edge& e : in) e.weight *= theta;
    return in;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("lazy ", topology.describe(), " (theta ", theta, ")");
  }
};
template <Topology T>
lazy(T, double) -> lazy<T>;
template <Topology T>
lazy(T) -> lazy<T>;

}  // namespace topologies

}  // namespace cordee::inline CORDEE_ABI
