// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradual warm-up: a straight climb over the first epochs, once per update (Goyal et al. 2017).
//
//   warmup       rate(e) = start + (s(W) - start) e / W   for e < W, then s(e)
//   warmup_then  rate(e) = start + (s(0) - start) e / W   for e < W, then s(e - W)
//
// Two nouns, because they are two curves. `warmup` overwrites the beginning of a schedule that
// otherwise stands where it stood ("overlap": Goyal's milestones stay at 30, 60, 80), and is the
// one to reach for: adding it to a run moves nothing else. `warmup_then` puts the climb in front
// ("prefix": MLPerf), and the epochs of its schedule count from the end of the climb: 90 epochs in
// all are warmup_then{5, polynomial{.peak = …, .epochs = 85}}. Both are continuous at W.
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Where a climb starts. Zero, unless said otherwise: LARS and the TPU recipes start there, and it
/// needs no second number. Goyal starts from the rate of one worker: from_rate{0.1}.
struct from_rate {
  double rate = 0;
};

namespace detail {
inline double climb(double epoch, double epochs, double start, double top) {
  return start + (top - start) * (epoch > 0 ? epoch / epochs : 0);
}
inline void expects_length(double epochs) {
  expects(epochs >= 0, "warmup: the number of epochs is negative");
}
}  // namespace detail

template <Schedule S>
struct warmup {
  double epochs = 0;
  S inner{};
  from_rate start{};

  double operator()(double epoch) const {
    detail::expects_length(epochs);
    return epoch < epochs ? detail::climb(epoch, epochs, start.rate, inner(epochs)) : inner(epoch);
  }
  [[nodiscard]] double ends() const { return end_of(inner); }
  void observe(double epoch, double mean_loss)
    requires AdaptiveSchedule<S>
  {
    inner.observe(epoch, mean_loss);
  }
  [[nodiscard]] std::string describe() const {
    return text("warm-up from ", start.rate, " over the first ", epochs,
                " epochs of: ", in_words(inner));
  }
};
template <class S>
warmup(double, S) -> warmup<S>;
template <class S>
warmup(double, S, from_rate) -> warmup<S>;

template <Schedule S>
struct warmup_then {
  double epochs = 0;
  S inner{};
  from_rate start{};

  double operator()(double epoch) const {
    detail::expects_length(epochs);
    return epoch < epochs ? detail::climb(epoch, epochs, start.rate, inner(0.0))
                          : inner(epoch - epochs);
  }
  [[nodiscard]] double ends() const { return epochs + end_of(inner); }
  void observe(double epoch, double mean_loss)
    requires AdaptiveSchedule<S>
  {
    if (epoch >= epochs) inner.observe(epoch - epochs, mean_loss);
  }
  [[nodiscard]] std::string describe() const {
    return text("warm-up from ", start.rate, " over ", epochs, " epochs, then: ", in_words(inner));
  }
};
template <class S>
warmup_then(double, S) -> warmup_then<S>;
template <class S>
warmup_then(double, S, from_rate) -> warmup_then<S>;

}  // namespace cordee::inline CORDEE_ABI
