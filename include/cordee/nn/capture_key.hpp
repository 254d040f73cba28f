// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a captured pass of a network depends on beside its batch: another key, another capture.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Identifies what a captured graph of a network with the loss L depends on. `bytes` stands for
/// addresses: a network's buffers only grow, so a buffer that has moved changes the sum.
template <class L>
struct capture_key {
  std::size_t bytes;    ///< Sum of the sizes of a network's buffers.
  L loss;               ///< The loss with its options, which are kernel arguments.
  double dropout_rate;  ///< See network::dropout_rate.
  /// Whether batch norms are frozen, and whether int8 counts histograms of inputs.
  bool frozen_statistics, counts_numbers;
  bool operator==(const capture_key&) const = default;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
