// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A loader for the toy model: no data, one sample per rank and micro-batch, ten updates per epoch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>

namespace support {

using namespace cordee;

struct toy_loader {
  int rank_count = 1, micro = 1;
  std::int64_t next_step = 0;
  std::vector<batch<cpu>> batches{};

  [[nodiscard]] extent image() const { return {1, 1, 1}; }
  [[nodiscard]] int classes() const { return 1; }
  [[nodiscard]] std::int64_t samples() const { return 10 * global_batch(); }
  [[nodiscard]] std::int64_t global_batch() const { return rank_count * micro; }
  [[nodiscard]] int ranks() const { return rank_count; }
  [[nodiscard]] int accumulate() const { return micro; }
  [[nodiscard]] cordee::normalization normalization() const { return {}; }
  [[nodiscard]] std::int64_t steps(double epochs) const {
    return static_cast<std::int64_t>(10 * epochs);
  }
  [[nodiscard]] double epoch(std::int64_t step) const { return static_cast<double>(step) / 10; }
  [[nodiscard]] std::int64_t step() const { return next_step; }
  std::span<const batch<cpu>> next() {
    ++next_step;
    batches.assign(static_cast<std::size_t>(micro), {{}, {}, 1, global_batch(), rank_count});
    return batches;
  }
};

/// One whose batch doubles after an epoch of ten updates: epochs of five, and `late` of an epoch
/// later, where updates do not begin with epochs.
struct growing_loader : toy_loader {
  double late = 0;
  [[nodiscard]] std::int64_t steps(double epochs) const {
    return std::llround(10 * std::min(epochs, 1.0) + 5 * std::max(epochs - 1 - late, 0.0));
  }
  [[nodiscard]] double epoch(std::int64_t step) const {
    return step <= 10 ? toy_loader::epoch(step) : 1 + late + static_cast<double>(step - 10) / 5;
  }
};

/// 21 samples of one zero pixel.
struct toy_data {
  std::size_t count = 21;

  [[nodiscard]] extent image() const { return {1, 1, 1}; }
  [[nodiscard]] int classes() const { return 1; }
  [[nodiscard]] std::size_t size() const { return count; }
  int read(std::size_t, std::span<std::uint8_t> pixels) const {
    pixels[0] = 0;
    return 0;
  }
};

}  // namespace support
