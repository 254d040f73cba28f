// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The order of samples: one permutation of the data set for each epoch.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI::detail::data {

/// Fills `indices` with a uniform permutation of 0 .. size - 1, a function of (seed, epoch, size)
/// alone (Fisher, Yates).
inline void shuffle_indices(std::span<std::uint32_t> indices, std::uint64_t seed,
                            std::int64_t epoch) {
  const std::size_t size = indices.size();
  expects(size <= core::limits<std::uint32_t>::max(),
          "shuffled_indices: more than 2^32 - 1 samples");
  for (std::size_t k = 0; k < size; ++k) indices[k] = static_cast<std::uint32_t>(k);
  random_sequence random(seed, purpose::shuffle, static_cast<std::uint64_t>(epoch), 0);
  for (std::size_t left = size; left > 1; --left)
    std::swap(indices[left - 1], indices[random.below(static_cast<std::uint32_t>(left))]);
}
/// The same in a vector of its own.
inline std::vector<std::uint32_t> shuffled_indices(std::uint64_t seed, std::int64_t epoch,
                                                   std::size_t size) {
  std::vector<std::uint32_t> indices(size);
  shuffle_indices({indices.data(), size}, seed, epoch);
  return indices;
}

/// The order of an epoch: the data set's own, if it has one, or a uniform permutation.
template <class S>
std::vector<std::uint32_t> order_of(const S& dataset, std::uint64_t seed, std::int64_t epoch) {
  if constexpr (Ordered<S>)
    return dataset.order(seed, epoch);
  else
    return shuffled_indices(seed, epoch, dataset.size());
}

/// The order of the epoch that was requested last.
class epoch_order {
 public:
  /// The index in the data set of the sample at a place of an epoch's order.
  template <class S>
  std::uint32_t at(const S& dataset, std::uint64_t seed, std::int64_t epoch, std::int64_t place) {
    if (epoch != epoch_ || order_.empty()) {
      if constexpr (Ordered<S>) {
        const std::vector<std::uint32_t> order = dataset.order(seed, epoch);
        expects(order.size() == dataset.size(), "loader: the data set's order has another size");
        order_.clear();
        for (const std::uint32_t index : order) order_.push_back(index);
      } else {
        order_.resize(dataset.size());
        shuffle_indices(order_.span(), seed, epoch);
      }
      epoch_ = epoch;
    }
    return order_[static_cast<std::size_t>(place)];
  }

 private:
  core::pod_vector<std::uint32_t> order_;
  std::int64_t epoch_ = -1;
};

}  // namespace cordee::inline CORDEE_ABI::detail::data
