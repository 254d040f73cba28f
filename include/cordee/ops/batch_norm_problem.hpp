// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One batch normalisation: its geometry, its memory, and whom it shares statistics with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include <cordee/core/config.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

/// The hook of distributed batch normalisation: replaces the numbers by their sums over the ranks
/// that share statistics. Empty: this rank alone. Every rank of the group calls it equally often,
/// with samples or without.
struct combine_sums {
  void (*call)(void* context, std::span<double> sums) = nullptr;
  void* context = nullptr;

  explicit operator bool() const { return call != nullptr; }
  void operator()(std::span<double> sums) const {
    if (call != nullptr) call(context, sums);
  }
};

/// One layer's geometry. Statistics are taken over `group` consecutive samples (0: all); the last
/// group of a batch may be smaller.
struct batch_norm_problem {
  extent at;
  int group = 0;

  static constexpr double epsilon = 1e-5;
  static constexpr double momentum = 0.1;  // the weight of a new statistic in the running one
  static constexpr double constant = std::numeric_limits<double>::infinity();  // see backward

  [[nodiscard]] constexpr std::size_t group_size(int samples) const {
    return static_cast<std::size_t>(group == 0 ? std::max(samples, 1) : group);
  }
  [[nodiscard]] constexpr std::size_t groups(int samples) const {
    return (static_cast<std::size_t>(samples) + group_size(samples) - 1) / group_size(samples);
  }
  [[nodiscard]] constexpr std::size_t lanes_of(int block) const {
    return blocks_of(at.channels, block) * static_cast<std::size_t>(block);
  }
  /// Numbers that forward leaves to backward: five rows a group.
  [[nodiscard]] constexpr std::size_t saved(int samples, int block) const {
    return std::max(groups(samples), std::size_t{1}) * 5 * lanes_of(block);
  }
  /// Doubles that either direction works in: two rows a sample, and one message of sums.
  [[nodiscard]] constexpr std::size_t scratch(int samples, int block) const {
    return (2 * static_cast<std::size_t>(samples) + 2) * row_of(block) + 1;
  }
  /// The length of such a row: by a cache line more than it holds, for rows that lie powers of two
  /// apart would compete for a few places of the cache.
  [[nodiscard]] constexpr std::size_t row_of(int block) const { return lanes_of(block) + 8; }
};

/// A direction's scratch: two sums for each sample and channel, and a message of sums over samples.
struct batch_norm_sums {
  std::size_t row;
  double *firsts, *seconds, *message;

  constexpr batch_norm_sums(const batch_norm_problem& at, int samples, int block, double* scratch)
      : row(at.row_of(block)),
        firsts(scratch),
        seconds(firsts + static_cast<std::size_t>(samples) * row),
        message(seconds + static_cast<std::size_t>(samples) * row) {}

  [[nodiscard]] constexpr double* first(std::size_t sample) const { return firsts + sample * row; }
  [[nodiscard]] constexpr double* second(std::size_t sample) const {
    return seconds + sample * row;
  }
};

/// What forward and backward of one layer share. gamma and beta are padded to whole blocks with
/// zeros, so that padding channels stay zero; running statistics and gradients are canonical.
template <class Number, class Real = Number>
struct batch_norm_tensors {
  const Number* x = nullptr;    // the layer's input, kept for backward
  Number* y = nullptr;          // its output, which tells backward where the ReLU was open
  const Real* gamma = nullptr;  // (lanes)
  const Real* beta = nullptr;   // (lanes)
  Real* saved = nullptr;        // problem.saved(samples, V)
  double* scratch = nullptr;    // problem.scratch(samples, V)
};

}  // namespace cordee::inline CORDEE_ABI
