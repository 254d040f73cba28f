// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cross-entropy of a softmax with label smoothing (Szegedy et al., 2016).
//
//   p = softmax(z),  t = (1 - eps) onehot(label) + eps / K,  loss = -sum(t log p),  dz = p - t
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

/// A score as a device sums it, and the first sample whose label is no class of the network.
struct score_sums {
  double loss = 0;
  std::int64_t top1 = 0, top5 = 0, count = 0;
  std::int64_t bad_sample = -1, bad_label = 0;
};

namespace detail {

[[noreturn]] inline void bad_label(std::int64_t sample, std::int64_t label, int classes) {
  throw error(text("softmax_loss: sample ", sample, " of the batch has label ", label,
                   ", but the network has classes 0 to ", classes - 1,
                   "; check the data set or the network's number of classes"));
}

/// Whether class c stands before the label: with a larger logit, or with an equal one and a smaller
/// index. A logit that is not a number stands before every other.
template <Number N>
constexpr bool stands_before(const N* z, int c, int label) {
  const auto own = widened(z[label]), other = widened(z[c]);
  return c != label && !(own > other || (own == other && label < c));
}
/// How many classes stand before the label; if its logit is not a number, no rank is good enough.
template <class Real>
int rank_of(const Real* z, int classes, int label) {
  if (std::isnan(z[label])) return std::numeric_limits<int>::max();
  int before = 0;
  for (int c = 0; c < classes; ++c) before += stands_before(z, c, label);
  return before;
}

/// What one sample's loss and slopes are made of.
struct softmax_sums {
  double largest = 0, sum = 0, away = 0;  // of z, of exp(z - largest), of z - largest

  [[nodiscard]] CORDEE_HOST_DEVICE double loss(double own, int classes, double smoothing) const {
    const double log_sum = std::log(sum), alone = log_sum - (own - largest);
    return smoothing == 0 ? alone
                          : (1 - smoothing) * alone + smoothing * (log_sum - away / classes);
  }
  [[nodiscard]] CORDEE_HOST_DEVICE double slope(double z, bool own, int classes,
                                                double smoothing) const {
    return std::exp(z - largest) / sum - ((own ? 1 - smoothing : 0) + smoothing / classes);
  }
};

}  // namespace detail

/// The sums as a score; throws where a label was no class.
inline score checked(const score_sums& sums, int classes) {
  if (sums.bad_sample >= 0) detail::bad_label(sums.bad_sample, sums.bad_label, classes);
  return {sums.loss, sums.top1, sums.top5, sums.count};
}

/// The score of (samples, classes) logits, sums over the samples, and where `gradient` is given
/// `seed` times the gradient of each sample's loss (seed = 1 / global makes it that of the mean).
/// One thread: a thousandth of a network's time, and the sums keep the order of the samples.
template <class Real>
score softmax_loss(int classes, int samples, const Real* logits, const std::int32_t* labels,
                   double smoothing, double seed, Real* gradient, cpu::stream) {
  score total;
  for (int n = 0; n < samples; ++n) {
    const int label = labels[n];
    if (label < 0 || label >= classes) detail::bad_label(n, label, classes);
    const Real* z = logits + static_cast<std::size_t>(n) * static_cast<std::size_t>(classes);
    detail::softmax_sums sums;
    sums.largest = static_cast<double>(z[0]);
    for (int c = 1; c < classes; ++c) {
      const auto candidate = static_cast<double>(z[c]);
      if (candidate > sums.largest) sums.largest = candidate;
    }
    for (int c = 0; c < classes; ++c) {
      const double below = static_cast<double>(z[c]) - sums.largest;
      sums.sum += std::exp(below);
      sums.away += below;
    }
    total.loss += sums.loss(static_cast<double>(z[label]), classes, smoothing);
    const int rank = detail::rank_of(z, classes, label);
    total.top1 += rank < 1;
    total.top5 += rank < 5;
    ++total.count;
    if (gradient == nullptr) continue;
    Real* dz = gradient + (z - logits);
    for (int c = 0; c < classes; ++c)
      dz[c] = static_cast<Real>(
          seed * sums.slope(static_cast<double>(z[c]), c == label, classes, smoothing));
  }
  return total;
}

}  // namespace cordee::inline CORDEE_ABI
