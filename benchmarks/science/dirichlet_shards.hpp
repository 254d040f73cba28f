// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Heterogeneous shards of a data set: the shares of the ranks in each class are drawn from
// Dirichlet's distribution (Hsu et al., 2019; Lin et al., 2021).
//
//   share_r = x_r / sum(x),   x_r ~ Gamma(alpha, 1)
//
// All ranks have equal shares as alpha grows; at 0.1 most of a class is on one or two ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <cordee/core/error.hpp>

namespace science {

/// The indices of each rank's samples. Every sample is on one rank; a rank that would have none has
/// one sample of another.
template <class Data>
std::vector<std::vector<std::size_t>> dirichlet_shards(const Data& data, int ranks, double alpha,
                                                       std::uint64_t seed) {
  std::vector<std::vector<std::size_t>> of_class(static_cast<std::size_t>(data.classes())),
      shards(static_cast<std::size_t>(ranks));
  std::vector<std::uint8_t> pixels(data.image().size());
  for (std::size_t i = 0; i < data.size(); ++i)
    of_class[static_cast<std::size_t>(data.read(i, pixels))].push_back(i);
  if (!(alpha >= 0.01)) throw cordee::error("dirichlet_shards: alpha must be 0.01 or more");
  std::mt19937_64 random(seed);
  for (const auto& members : of_class) {
    std::gamma_distribution<double> gamma(alpha);
    std::vector<double> share(shards.size());
    for (double& s : share) s = gamma(random) + 1e-300;
    const double total = std::accumulate(share.begin(), share.end(), 0.0);
    double below = 0;
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      below += share[rank] / total;
      const auto end = rank + 1 == shards.size()
                           ? members.size()
                           : static_cast<std::size_t>(below * static_cast<double>(members.size()));
      for (; next < end; ++next) shards[rank].push_back(members[next]);
    }
  }
  for (auto& shard : shards)
    if (shard.empty()) {
      auto& largest =
          *std::max_element(shards.begin(), shards.end(),
                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
      shard.push_back(largest.back());
      largest.pop_back();
    }
  return shards;
}

}  // namespace science
