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
//
// On a GPU forward notes in the device's memory; once a step the host fetches what was noted, and
// the ranges move there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/text.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/histogram.hpp>
#include <cordee/ops/quantise_lanes.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// What one layer saw since it was last asked, and, comparing, how far it was from FP32.
struct layer_watch {
  std::string_view name;
  std::size_t low = 0, high = 0;  // places of its range in a plane
  real_range seen{};
  double error = 0, square = 0;   // sums of (y - y32)^2 and of y32^2
  double clipped = 0, count = 0;  // inputs beyond the range, and all
};

/// What the layers of a network leave for whoever runs it.
struct quantisation_watch {
  /// quantised: bytes, as trained and evaluated. observed: FP32 runs, and ranges are noted.
  /// compared: FP32 runs, and beside each layer its bytes.
  enum class runs { quantised, observed, compared } how = runs::quantised;
  std::vector<layer_watch> layers;
  std::vector<double> counts;  // (layers, bins) of the numbers seen, where a percentile is wanted

  /// One watch a range of the table. A rank may learn before it ever runs forward.
  [[gnu::cold]] void begin(std::span<const segment> table) {
    constexpr std::string_view low = ".input_min";
    for (std::size_t k = 0; k + 1 < table.size(); ++k)
      if (const auto name = table[k].name; name.ends_with(low))
        layers.push_back(
            {name.substr(0, name.size() - low.size()), table[k].offset, table[k + 1].offset, {}});
  }
  /// The ranges seen, as minima: (low, -high) of each layer; nothing where it does not `count`.
  [[nodiscard]] std::vector<double> take(bool count) {
    std::vector<double> minima(2 * layers.size());
    for (std::size_t k = 0; k < layers.size(); ++k) {
      real_range& seen = layers[k].seen;
      if (!count) seen = {};
      minima[2 * k] = seen.low;
      minima[2 * k + 1] = -seen.high;
      seen = {};
    }
    return minima;
  }
  /// How the numbers seen are spread, (layers, bins).
  [[nodiscard]] std::vector<double> take_counts(bool count) {
    if (!count) counts.clear();
    counts.resize(layers.size() * number_bins::count);
    return std::exchange(counts, {});
  }
};

/// One layer's range in a plane, and what all ranks saw in a step: it moves there.
struct range_step {
  std::size_t low_at, high_at;
  double low, high, averaging;
  bool frozen;

  template <class Real>
  CORDEE_HOST_DEVICE void operator()(Real* plane) const {
    Real &low_now = plane[low_at], &high_now = plane[high_at];
    const bool first = !(low_now <= high_now);
    if (!(low <= high) || (!first && frozen)) return;
    const auto moved = [this, first](double from, double to) {
      return static_cast<Real>(first ? to : from + averaging * (to - from));
    };
    low_now = moved(low_now, low);
    high_now = moved(high_now, high);
  }
};

/// For int8: how ranges are learned.
struct quantisation_settings {
  double averaging = 0.01;
  double percentile = 100;  // of what a step saw; between 50 and 100
  double freeze_ranges_at = std::numeric_limits<double>::infinity();  // epoch
  quantisation_watch watch{};

  [[gnu::cold]] void check() const {
    expects(averaging >= 0 && averaging <= 1,
            "quantisation.averaging: a range moves by a share of the way, 0 to 1");
    expects(
        percentile > 50 && percentile <= 100,
        "quantisation.percentile: a range holds most numbers, more than 50 of 100 and at most all");
  }
  /// Layer k reads these numbers, which span `seen`; so many zeros only fill up blocks.
  void note(std::size_t k, const real_range& seen, std::size_t n, const float* x, cpu::stream s,
            std::size_t filling = 0) {
    layer_watch& layer = watch.layers[k];
    layer.seen.widen(seen);
    if (percentile >= 100) return;
    watch.counts.resize(watch.layers.size() * number_bins::count);
    count_numbers(n, x, {watch.counts.data() + k * number_bins::count, number_bins::count}, s,
                  filling);
  }

  /// All ranks' minima without the ends that the percentile leaves out.
  void cut(std::span<double> minima, std::span<const double> counts) const {
    check();
    expects(counts.size() == watch.layers.size() * number_bins::count,
            "quantisation: not a histogram for each layer");
    for (std::size_t k = 0; k < watch.layers.size(); ++k) {
      double *low = &minima[2 * k], *high = low + 1;
      const real_range all{static_cast<float>(*low), static_cast<float>(-*high)},
          middle = middle_of({counts.data() + k * number_bins::count, number_bins::count}, all,
                             percentile);
      *low = middle.low;
      *high = -middle.high;
    }
  }

  /// What a step in which all ranks saw `minima` does to layer k. What nobody saw stays.
  [[nodiscard]] range_step step_of(std::size_t k, std::span<const double> minima,
                                   double epoch) const {
    expects(minima.size() == 2 * watch.layers.size(), "quantisation: not a range for each layer");
    const layer_watch& layer = watch.layers[k];
    return {layer.low,          layer.high, minima[2 * k],
            -minima[2 * k + 1], averaging,  epoch >= freeze_ranges_at};
  }
  /// The ranges in `plane` move.
  template <class Real>
  void learn(Real* plane, std::span<const double> minima, double epoch) const {
    for (std::size_t k = 0; k < watch.layers.size(); ++k) step_of(k, minima, epoch)(plane);
  }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_unknown_range(std::string_view name) {
  throw error(text("layer \"", name, "\" does not know the range of its input: train the ",
                   "network in int8, load weights that were, or calibrate it"));
}

namespace detail {

template <class Real>
struct moves_ranges {
  const range_step* steps;
  Real* plane;
  input_record* records;
  CORDEE_DEVICE void operator()(std::size_t k) const {
    steps[k](plane);
    records[k].seen = {};
  }
};

}  // namespace detail

/// The same for a device, whose kernels note what each layer sees.
template <class D>
struct quantisation_on : quantisation_settings {
  using stream = typename D::stream;

  buffer<input_record, D> records;
  buffer<double, D> counts;  // (layers, bins)
  buffer<range_step, D> steps;

  void begin(const D& where, std::span<const segment> table) {
    watch.begin(table);
    const std::size_t layers = watch.layers.size();
    records = {where, layers};
    counts = {where, layers * number_bins::count};
    steps = {where, layers};
    const std::vector<input_record> none(layers);
    const stream s{};
    where.copy(records.span().data, none.data(), layers * sizeof(input_record), s);
    where.finish(s);
  }

  /// The watch saw what the device did.
  void fetch(const D& where, stream s) {
    const auto found = recorded(where, s);
    for (std::size_t k = 0; k < found.size(); ++k) watch.layers[k].seen = found[k].seen;
    if (percentile >= 100) return;
    watch.counts = on_host(where, std::as_const(counts).span(), s);
  }
  /// The ranges in the device's `plane` move, and what was noted is forgotten.
  template <class Real>
  void learn(const D& where, Real* plane, std::span<const double> minima, double epoch, stream s) {
    std::vector<range_step> all;
    for (std::size_t k = 0; k < watch.layers.size(); ++k) all.push_back(step_of(k, minima, epoch));
    where.copy(steps.span().data, all.data(), all.size() * sizeof(range_step), s);
    for_each(s, all.size(),
             detail::moves_ranges<Real>{steps.span().data, plane, records.span().data});
    where.clear(counts.span().data, counts.size() * sizeof(double), s);
  }
  /// After an evaluation: every layer had a range.
  void expect_ranges(const D& where, stream s) const {
    const auto found = recorded(where, s);
    for (std::size_t k = 0; k < found.size(); ++k)
      if (found[k].known == 0) refuse_unknown_range(watch.layers[k].name);
  }

 private:
  [[nodiscard]] std::vector<input_record> recorded(const D& where, stream s) const {
    return on_host(where, records.span(), s);
  }
};

namespace detail {
struct no_quantisation {};
template <class P, class D>
struct quantisation_of {
  using type = no_quantisation;
};
template <Quantised P, class D>
struct quantisation_of<P, D> {
  using type = std::conditional_t<D::host_memory, quantisation_settings, quantisation_on<D>>;
};
}  // namespace detail
template <class P, class D>
using quantisation_of = typename detail::quantisation_of<P, D>::type;

}  // namespace cordee::inline CORDEE_ABI
