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

/// How many classes stand before the label: those with a larger logit, and those with an equal one
/// and a smaller index. A logit that is not a number stands before every other; if it is the
/// label's own, no rank is good enough.
template <class Real>
int rank_of(const Real* z, int classes, int label) {
  const Real own = z[label];
  if (std::isnan(own)) return std::numeric_limits<int>::max();
  int before = 0;
  for (int c = 0; c < classes; ++c)
    if (c != label && !(own > z[c] || (own == z[c] && label < c))) ++before;
  return before;
}

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
  const double elsewhere = smoothing / classes;
  for (int n = 0; n < samples; ++n) {
    const int label = labels[n];
    if (label < 0 || label >= classes) detail::bad_label(n, label, classes);
    const Real* z = logits + static_cast<std::size_t>(n) * static_cast<std::size_t>(classes);
    auto largest = static_cast<double>(z[0]);
    for (int c = 1; c < classes; ++c) {
      const auto candidate = static_cast<double>(z[c]);
      if (candidate > largest) largest = candidate;
    }
    double sum = 0, away = 0;  // of exp(z - largest), of z - largest
    for (int c = 0; c < classes; ++c) {
      const double below = static_cast<double>(z[c]) - largest;
      sum += std::exp(below);
      away += below;
    }
    const double log_sum = std::log(sum);
    const double own = log_sum - (static_cast<double>(z[label]) - largest);
    total.loss +=
        smoothing == 0 ? own : (1 - smoothing) * own + smoothing * (log_sum - away / classes);
    const int rank = detail::rank_of(z, classes, label);
    total.top1 += rank < 1;
    total.top5 += rank < 5;
    ++total.count;
    if (gradient == nullptr) continue;
    Real* dz = gradient + (z - logits);
    for (int c = 0; c < classes; ++c) {
      const double target = (c == label ? 1 - smoothing : 0) + elsewhere;
      dz[c] =
          static_cast<Real>(seed * (std::exp(static_cast<double>(z[c]) - largest) / sum - target));
    }
  }
  return total;
}

}  // namespace cordee::inline CORDEE_ABI
