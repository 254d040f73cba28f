// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How a network in int8 learns the ranges of what its convolutions read.
//
//   low <- low + averaging (smallest - low),  high <- high + averaging (largest - high)
//
// over the numbers that all ranks saw in a step, of which a percentile below 100 leaves out both
// ends (ops/histogram.hpp); the first step counts whole. Forward notes what it sees; the trainer
// agrees on it over ranks once a step, and then the ranges move, on every rank alike. They are
// running statistics, saved with the weights as input_min and input_max.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/ops/histogram.hpp>
#include <cordee/ops/quantise_lanes.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// What one layer saw since it was last asked, and, comparing, how far it was from FP32.
struct layer_watch {
  std::string_view name;
  std::size_t low = 0, high = 0;  // places of its range in a plane
  real_range seen;
  std::vector<double> counts;     // how the numbers seen are spread, where a percentile is wanted
  double error = 0, square = 0;   // sums of (y - y32)^2 and of y32^2
  double clipped = 0, count = 0;  // inputs beyond the range, and all
};

/// What the layers of a network leave for whoever runs it.
struct quantisation_watch {
  /// quantised: bytes, as trained and evaluated. observed: FP32 runs, and ranges are noted.
  /// compared: FP32 runs, and beside each layer its bytes.
  enum class runs { quantised, observed, compared } how = runs::quantised;
  std::vector<layer_watch> layers;

  /// The ranges seen, as minima: (low, -high) of each layer; nothing where it does not `count`.
  [[nodiscard]] std::vector<double> take(bool count) {
    std::vector<double> minima;
    for (layer_watch& one : layers) {
      if (!count) one.seen = {};
      minima.push_back(one.seen.low);
      minima.push_back(-one.seen.high);
      one.seen = {};
    }
    return minima;
  }
  /// How the numbers seen are spread, (layers, bins).
  [[nodiscard]] std::vector<double> take_counts(bool count) {
    std::vector<double> all(layers.size() * number_bins::count);
    double* to = all.data();
    for (layer_watch& one : layers) {
      if (count) std::copy(one.counts.begin(), one.counts.end(), to);
      one.counts.clear();
      to += number_bins::count;
    }
    return all;
  }
};

/// For int8: how ranges are learned.
struct quantisation_settings {
  double averaging = 0.01;
  double percentile = 100;  // of what a step saw; between 50 and 100
  double freeze_ranges_at = std::numeric_limits<double>::infinity();  // epoch
  quantisation_watch watch{};

  /// Layer k reads these numbers, which span `seen`.
  void note(std::size_t k, const real_range& seen, std::size_t n, const float* x, cpu::stream s) {
    layer_watch& layer = watch.layers[k];
    layer.seen.widen(seen);
    if (percentile >= 100) return;
    layer.counts.resize(number_bins::count);
    count_numbers(n, x, layer.counts, s);
  }

  /// All ranks' minima without the ends that the percentile leaves out.
  void cut(std::span<double> minima, std::span<const double> counts) const {
    expects(percentile > 50, "quantisation: a range holds most numbers: percentile is above 50");
    expects(counts.size() == watch.layers.size() * number_bins::count,
            "quantisation: not a histogram for each layer");
    for (std::size_t k = 0; k < watch.layers.size(); ++k) {
      double *low = &minima[2 * k], *high = low + 1;
      const real_range all{static_cast<float>(*low), static_cast<float>(-*high)},
          middle = middle_of(counts.subspan(k * number_bins::count, number_bins::count), all,
                             percentile);
      *low = middle.low;
      *high = -middle.high;
    }
  }

  /// The ranges in `plane` after a step in which all ranks saw `minima`. What nobody saw stays.
  template <class Real>
  void learn(Real* plane, std::span<const double> minima, double epoch) const {
    expects(minima.size() == 2 * watch.layers.size(), "quantisation: not a range for each layer");
    for (std::size_t k = 0; k < watch.layers.size(); ++k) {
      const double low = minima[2 * k], high = -minima[2 * k + 1];
      if (!(low <= high)) continue;
      Real &low_now = plane[watch.layers[k].low], &high_now = plane[watch.layers[k].high];
      const bool first = !(low_now <= high_now);
      if (!first && epoch >= freeze_ranges_at) continue;
      const auto move = [&](Real& now, double to) {
        const auto from = static_cast<double>(now);
        now = static_cast<Real>(first ? to : from + averaging * (to - from));
      };
      move(low_now, low);
      move(high_now, high);
    }
  }
};

namespace detail {
struct no_quantisation {};
}  // namespace detail
template <class P>
using quantisation_of =
    std::conditional_t<Quantised<P>, quantisation_settings, detail::no_quantisation>;

}  // namespace cordee::inline CORDEE_ABI
