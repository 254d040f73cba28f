// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ops/softmax_loss.hpp on grids: a block for every sample, then one that adds the samples.
//
// What arithmetic there is is made in double, as on the CPU: a thousand classes of a hundred
// samples are a thousandth of a network's time.
#pragma once

#include <limits>

#include <cordee/device/grid.hpp>
#include <cordee/ops/grid/largest.hpp>
#include <cordee/ops/softmax_loss.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

constexpr bool is_class(int label, int classes) { return 0 <= label && label < classes; }

struct sample_score {
  double loss;
  int rank;
};

/// Of one sample a score and slopes. A label that is no class makes them no numbers, so that no
/// step is made of them before the host has seen it.
template <Number N>
struct softmax_body {
  static constexpr int threads = 128;
  int classes;
  const N* logits;
  const std::int32_t* labels;
  double smoothing, seed;
  const float* scale;
  N* gradient;
  sample_score* scores;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(double); }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
    const N* const z = logits + b.index() * static_cast<std::size_t>(classes);
    const int label = labels[b.index()];
    const bool known = is_class(label, classes);

    double most = -std::numeric_limits<double>::infinity();
    for (int c = b.thread(); c < classes; c += threads)
      if (static_cast<double>(widened(z[c])) > most) most = static_cast<double>(widened(z[c]));
    most = largest_of<threads>(b, most);
    double sum = 0, away = 0, before = 0;
    for (int c = b.thread(); c < classes; c += threads) {
      const double below = static_cast<double>(widened(z[c])) - most;
      sum += std::exp(below);
      away += below;
      before += known && stands_before(z, c, label);
    }
    before = b.sum(before);
    const softmax_sums sums{known ? most : nothing, b.sum(sum), b.sum(away)};

    if (b.thread() == 0) {
      const double own = known ? static_cast<double>(widened(z[label])) : nothing;
      const int rank = std::isnan(own) ? std::numeric_limits<int>::max() : static_cast<int>(before);
      scores[b.index()] = {sums.loss(own, classes, smoothing), rank};
    }
    if (gradient == nullptr) return;
    N* const dz = gradient + (z - logits);
    const double by = scale == nullptr ? seed : seed * static_cast<double>(*scale);
    for (int c = b.thread(); c < classes; c += threads)
      dz[c] = rounded<N>(static_cast<wide<N>>(
          by * sums.slope(static_cast<double>(widened(z[c])), c == label, classes, smoothing)));
  }
};

/// One block: what the samples add up to, in an order of its own but always the same.
struct score_body {
  static constexpr int threads = 256;
  int classes, samples;
  const sample_score* scores;
  const std::int32_t* labels;
  score_sums* out;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(double); }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    double loss = 0, top1 = 0, top5 = 0, first_bad = samples;
    for (int n = b.thread(); n < samples; n += threads) {
      loss += scores[n].loss;
      top1 += scores[n].rank < 1;
      top5 += scores[n].rank < 5;
      if (!is_class(labels[n], classes) && n < first_bad) first_bad = n;
    }
    loss = b.sum(loss);
    top1 = b.sum(top1);
    top5 = b.sum(top5);
    const int bad = static_cast<int>(-largest_of<threads>(b, -first_bad));
    if (b.thread() != 0) return;
    *out = {loss, static_cast<std::int64_t>(top1), static_cast<std::int64_t>(top5), samples};
    if (bad < samples) {
      out->bad_sample = bad;
      out->bad_label = labels[bad];
    }
  }
};

}  // namespace detail

/// *out, in the device's memory, is what `checked` makes a score of on the host. `seed` is
/// multiplied by what stands in `scale`, the device's memory too, if it is given.
template <Number N, GridStream S>
void softmax_loss(int classes, int samples, const N* logits, const std::int32_t* labels,
                  double smoothing, double seed, const float* scale, N* gradient, score_sums* out,
                  S s) {
  const auto n = static_cast<std::size_t>(samples);
  const lent<detail::sample_score, S> scores(s, n);
  s.launch(n, detail::softmax_body<N>{classes, logits, labels, smoothing, seed, scale, gradient,
                                      scores.data()});
  s.launch(1, detail::score_body{classes, samples, scores.data(), labels, out});
}

}  // namespace cordee::inline CORDEE_ABI
