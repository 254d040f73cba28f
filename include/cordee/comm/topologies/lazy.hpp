// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A topology whose ranks give themselves more weight: slower to agree, stable under more momentum.
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

template <Topology T>
struct lazy {
  static constexpr bool symmetric = detail::comm::SymmetricTopology<T>;
  static constexpr bool uniform_matching = detail::comm::UniformMatching<T>;

  T topology{};
  double theta = 0.5;

  [[nodiscard]] int period(int size) const { return topology.period(size); }
  [[nodiscard]] std::vector<int> dimensions(int size) const
    requires detail::comm::TranslationInvariant<T>
  {
    return topology.dimensions(size);
  }
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t round) const {
    expects(theta > 0 && theta <= 1, "lazy: theta must be above 0 and at most 1");
    const auto& unscaled = topology.in_edges(rank, size, round);
    std::vector<edge> in(unscaled.begin(), unscaled.end());
    for (edge& e : in) e.weight *= theta;
    return in;
  }
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
