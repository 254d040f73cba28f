// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// AdamP: AdamW whose step has no component along scale-invariant weights, so that the step does not
// increase their norm (Heo et al. 2020).
//
//   p = m^ / (sqrt(v^) + epsilon)                    m^, v^ as in adamw.hpp
//   Nesterov: beta1 m^ + (1 - beta1) g / (1 - beta1^t) in place of m^
//
//   tensors of two dimensions or more, where every row (the weights of one output) has
//     |cos(g, w)| < delta / sqrt(numbers of a row),
//   or, if that fails, the whole tensor as one row has:
//     p <- p - w <w, p> / (|w| + epsilon)^2          per row, or of the whole tensor
//     weight_decay <- decay_ratio weight_decay
//
//   w <- (1 - lr weight_decay) w - lr p
//
// p replaces the gradient in memory: the second pass reads p, and nothing reads the gradient after
// it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// The rows of a tensor: its first dimension if it has another one; any other segment is one row.
constexpr bool has_rows(const segment& s) { return s.shape[0] > 0 && s.shape[1] > 0; }
constexpr std::size_t row_count(const segment& s) {
  return has_rows(s) ? static_cast<std::size_t>(s.shape[0]) : 1;
}
/// A table with one segment for each row of the table's segments.
inline std::vector<segment> rows_of(std::span<const segment> table) {
  std::vector<segment> rows;
  for (const segment& s : table) {
    const std::size_t length = s.size / row_count(s);
    for (std::size_t r = 0; r < row_count(s); ++r)
      rows.push_back({s.name, s.kind, s.offset + r * length, length});
  }
  return rows;
}

/// Products of weights, gradient and step over a row.
struct row_products {
  double ww = 0, gg = 0, wg = 0, wp = 0;

  row_products& operator+=(const row_products& other) {
    ww += other.ww, gg += other.gg, wg += other.wg, wp += other.wp;
    return *this;
  }
  /// |cos(g, w)|
  [[nodiscard]] double cosine(double epsilon) const {
    return detail::core::abs(wg) /
           (std::max(detail::core::sqrt(ww), epsilon) * std::max(detail::core::sqrt(gg), epsilon));
  }
  /// The factor of w in the part of p along w; 0 where a sum is not finite.
  [[nodiscard]] double along(double epsilon) const {
    const double norm = detail::core::sqrt(ww) + epsilon, factor = wp / norm / norm;
    return detail::core::isfinite(factor) ? factor : 0;
  }
};

/// Updates the moments and writes p over the gradient.
template <class Real>
struct adamp_step {
  adam_moments<Real> moments;
  Real *m, *v, *p;
  bool nesterov;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number g = at.clamped(at(p), moments.largest);
    typename At::number step = moments.update(at, m, v, g);
    if (nesterov)
      step = moments.beta1 * step + moments.one_minus_beta1 * moments.scale1 * g /
                                        (moments.scale2 * at.root(at(v)) + moments.epsilon);
    at.put(p, at.clamped(step));
  }
  /// The same for numbers first .. last-1, which lie in one row; returns their products.
  [[nodiscard]] row_products over(const Real* w, std::size_t first, std::size_t last) const {
    constexpr std::size_t block = 256;  // p is summed while it is in the cache
    ops::dot_product ww, gg, wg, wp;
    for (std::size_t i = first; i < last; i += block) {
      const std::size_t n = std::min(block, last - i);
      ww.add(w + i, w + i, n);
      gg.add(p + i, p + i, n);
      wg.add(w + i, p + i, n);
      ops::simd_for_each<Real>(i, i + n, *this);
      wp.add(w + i, p + i, n);
    }
    return {ww.total(), gg.total(), wg.total(), wp.total()};
  }
};

/// w <- keep w - lr p, with a `keep` for each row
template <class Real>
struct decayed_step {
  Real* w;
  const Real* p;
  Real keep, learning_rate;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.clamped(at.clamped(keep * at(w)) - learning_rate * at(p)));
  }
};
template <class Real>
struct decayed_step_body {
  Real* w;
  const Real* p;
  const Real* keep;  // (rows)
  Real learning_rate;

  [[nodiscard]] decayed_step<Real> for_segment(kind, std::size_t row) const {
    return {w, p, keep[row], learning_rate};
  }
};

}  // namespace detail::optim

/// AdamW whose step has no component along scale-invariant weights. Runs on the CPU only; elsewhere
/// it does not compile.
struct adamp {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 2;                       ///< The moments m and v.
  static constexpr bool whole_tensors = true;           ///< Projects whole rows.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moment v. Range: 0 <= beta2 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta2 = 0.999;
  /// Added to the root of v^ and to |w|. Range: finite, above 0, else usage_error. Default: as
  /// Kingma and Ba 2014.
  double epsilon = 1e-8;
  /// Decoupled decay: the share of w that a step at learning rate 1 removes. Range: finite, 0 or
  /// more, else usage_error. Default: as timm.
  double weight_decay = 0;
  /// Projection threshold: a step is projected if |cos(g, w)| times the square root of a row's
  /// length is below it; 0: never. Range: finite, 0 or more, else usage_error. Default: as Heo et
  /// al. 2020.
  double delta = 0.1;
  /// Factor of the weight decay of tensors whose step is projected. Range: finite, 0 or more, else
  /// usage_error. Default: as timm.
  double decay_ratio = 0.1;
  bool nesterov = false;          ///< Whether to use Nesterov momentum.
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates m, v and w, and overwrites the gradient with p.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    static_assert(D::host_memory,
                  "adamp works on the CPU only, where sums per row are made; on a GPU take adamw, "
                  "or lamb for large batches");
    if constexpr (D::host_memory) {
      using namespace detail::optim;
      const std::vector<segment> rows = rows_of(v.segments);
      std::vector<row_products> products(rows.size());
      const adamp_step<Real> step{
          {*this, info}, v.slots[0].data, v.slots[1].data, v.grads.data, nesterov};
      detail::ops::segmented_sums(s, rows,
                                  span_on<row_products, D>{products.data(), products.size()},
                                  [&](std::size_t, std::size_t first, std::size_t last) {
                                    return step.over(v.weights.data, first, last);
                                  });
      std::vector<Real> keep;  // (rows)
      std::span<const row_products> rest = products;
      for (const segment& one : v.segments) {
        append_keep(one, rest.first(row_count(one)), info.learning_rate, keep);
        rest = rest.subspan(row_count(one));
      }
      detail::ops::segmented_for<Real>(
          s, rows,
          decayed_step_body<Real>{v.weights.data, v.grads.data, keep.data(),
                                  factor<Real>(info.learning_rate)});
    }
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::check_adam("adamp", *this);
    detail::optim::expects_not_negative("adamp", "delta", delta);
    detail::optim::expects_not_negative("adamp", "decay_ratio", decay_ratio);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("adamp", nesterov ? " (Nesterov)" : "", ", betas ", beta1, " and ", beta2,
                  ", epsilon ", epsilon, ", decoupled weight decay ", weight_decay, ", times ",
                  decay_ratio, " where the step is projected, delta ", delta,
                  detail::optim::describe_kinds("decays", decay_on));
  }

 private:
  /// Appends 1 - lr weight_decay + lr <w, p> / (|w| + epsilon)^2 for each row of a segment.
  template <class Real>
  void append_keep(const segment& s, std::span<const detail::optim::row_products> rows, double lr,
                   std::vector<Real>& keep) const {
    double cosine = 0;
    detail::optim::row_products whole;
    for (const auto& row : rows) {
      whole += row;
      cosine = std::max(cosine, row.cosine(epsilon));
    }
    const auto numbers = static_cast<double>(s.size);
    const bool by_row =
        cosine * detail::core::sqrt(numbers / static_cast<double>(rows.size())) < delta;
    const bool projects = detail::optim::has_rows(s) &&
                          (by_row || whole.cosine(epsilon) * detail::core::sqrt(numbers) < delta);
    const double decay = decay_on(s.kind) ? weight_decay * (projects ? decay_ratio : 1) : 0;
    for (const auto& row : rows) {
      const double along = projects ? (by_row ? row : whole).along(epsilon) : 0;
      keep.push_back(detail::optim::factor<Real>(1 - lr * decay + lr * along));
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI
