// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient noise scale: the batch beyond which larger ones pay little (McCandlish et al. 2018).
//
// E |g_B|^2 = |G|^2 + tr(S)/B for the mean gradient g_B of B samples, of which G is the true
// gradient and S the covariance of one sample's. A step has it for two B at once: b, a rank's own
// before the reduction (the mean over ranks), and B, the mean over ranks. Hence, each unbiased,
//
//   |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)        tr(S) = (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
//
// Both are averaged over steps, w <- beta w + (1 - beta), and then divided:
//
//   noise scale = mean tr(S) / mean |G|^2
//
// With it, training at batch B takes 1 + noise/B times the fewest updates and 1 + B/noise times the
// fewest samples. Shares of ranks may differ: 1/b is then the mean over ranks of 1/samples.
#pragma once

#include <array>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {
/// |G|^2 and tr(S), estimated by one step; either may be negative.
struct noise_estimate {
  double squared_gradient = 0, trace = 0;

  /// From the squared norms of gradients over `b` and over `batch` samples. Requires 0 < b < batch.
  static noise_estimate of(double squared_local, double b, double squared_mean, double batch) {
    expects(b > 0 && b < batch, "noise_estimate: needs two batches, the local one the smaller");
    return {(batch * squared_mean - b * squared_local) / (batch - b),
            (squared_local - squared_mean) / (1 / b - 1 / batch)};
  }
};

/// Moving averages over steps, a part of the run's state.
struct gradient_noise {
  static constexpr double beta = 0.99;

  /// Means without correction: of 1, of |G|^2 and tr(S), of their squares and product; and the sum
  /// of squared weights.
  std::array<double, 7> averages{};
  bool operator==(const gradient_noise&) const = default;

  void add(const noise_estimate& e) {
    const double g = e.squared_gradient, s = e.trace;
    const std::array now{1.0, g, s, g * g, s * s, g * s};
    for (std::size_t k = 0; k < now.size(); ++k)
      averages[k] = beta * averages[k] + (1 - beta) * now[k];
    averages[6] = beta * beta * averages[6] + (1 - beta) * (1 - beta);
  }

  [[nodiscard]] bool empty() const { return averages[0] == 0; }
  [[nodiscard]] double squared_gradient() const { return mean(1); }
  [[nodiscard]] double trace() const { return mean(2); }
  /// In samples; NaN as long as the mean |G|^2 is not positive.
  [[nodiscard]] double scale() const {
    return squared_gradient() > 0 ? trace() / squared_gradient()
                                  : core::limits<double>::quiet_NaN();
  }
  /// Standard errors of the two means and, to first order, of their ratio, if steps were
  /// independent; 0 after a single step.
  [[nodiscard]] double squared_gradient_error() const { return core::sqrt(covariance(3, 1, 1)); }
  [[nodiscard]] double scale_error() const {
    const double r = scale();
    const double variance =
        covariance(4, 2, 2) - 2 * r * covariance(5, 1, 2) + r * r * covariance(3, 1, 1);
    return core::sqrt(std::max(variance, 0.0)) / squared_gradient();
  }

  /// Updates and samples that training at this batch takes, relative to the fewest.
  [[nodiscard]] double updates_at(double batch) const { return 1 + scale() / batch; }
  [[nodiscard]] double samples_at(double batch) const { return 1 + batch / scale(); }

 private:
  [[nodiscard]] double mean(std::size_t k) const { return averages[k] / averages[0]; }
  // Sample covariance of two weighted means, from the mean of the product; the squares of the
  // weights count independent steps, of which a few large weights leave few.
  [[nodiscard]] double covariance(std::size_t product, std::size_t a, std::size_t b) const {
    const double share = averages[6] / (averages[0] * averages[0]);  // 1 / independent steps
    if (!(share < 1)) return 0;
    const double spread = mean(product) - mean(a) * mean(b);
    return (product == 5 ? spread : std::max(spread, 0.0)) * share / (1 - share);
  }
};

/// A sentence about the batch of a run, with what more or fewer workers would change.
std::string describe(const gradient_noise& noise, std::convertible_to<double> auto batch) {
  if (noise.empty()) return "not measured yet";
  if (!(noise.scale() > 0))
    return "not known yet: the gradient is below its noise, and its square has no positive mean";
  return concat("noise scale ", noise.scale(), " +- ", noise.scale_error(), " samples: a batch of ",
                batch, " takes ", noise.updates_at(batch), " times the fewest updates and ",
                noise.samples_at(batch), " times the fewest samples; ",
                batch < noise.scale() ? "more workers pay up to about a batch of "
                                      : "more workers have stopped to pay at about a batch of ",
                noise.scale());
}

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
