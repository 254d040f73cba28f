// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a network expects of a batch.
#pragma once

#include <cstddef>

#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Throws usage_error unless the batch has its count of images of `image` numbers, with labels.
template <class D>
[[gnu::cold, gnu::noinline]] void check_batch(const batch<D>& b, std::size_t image, phase p) {
  expects(b.count >= 0 && b.labels.size >= static_cast<std::size_t>(b.count) &&
              b.pixels.size >= static_cast<std::size_t>(b.count) * image,
          "network: the batch has fewer pixels or labels than its count");
  expects(
      b.label_weights.size == b.other_labels.size &&
          (b.label_weights.empty() || b.label_weights.size >= static_cast<std::size_t>(b.count)),
      "network: a batch of mixed samples has an other label and a weight for each of them");
  expects(p == phase::evaluate || b.global_samples >= std::max(b.count, 1),
          "network: global_samples of a batch for training is at least its count and at least 1");
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
