// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A copy of an update's micro-batches, which are a loader's until it makes the next one: a model
// that reads the next update (nn/model.hpp) gets that before the step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

class update_copy {
 public:
  /// Valid until the next call.
  std::span<const batch<cpu>> of(std::span<const batch<cpu>> update) {
    if (numbers_.size() < update.size()) numbers_.resize(update.size());
    batches_.assign(update.begin(), update.end());
    for (std::size_t i = 0; i < update.size(); ++i) {
      batch<cpu>& b = batches_[i];
      numbers& n = numbers_[i];
      b.pixels = copied(n.pixels, b.pixels);
      b.labels = copied(n.labels, b.labels);
      b.other_labels = copied(n.other_labels, b.other_labels);
      b.label_weights = copied(n.label_weights, b.label_weights);
    }
    return batches_;
  }

 private:
  struct numbers {
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels, other_labels;
    std::vector<float> label_weights;
  };
  template <class T>
  static span_on<const T, cpu> copied(std::vector<T>& to, span_on<const T, cpu> from) {
    to.assign(from.begin(), from.end());
    return {to.data(), to.size()};
  }

  std::vector<batch<cpu>> batches_;
  std::vector<numbers> numbers_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
