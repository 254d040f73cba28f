// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/ops/fold_batch_norm.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using cordee::detail::ops::fold_batch_norm;
using support::relative;

namespace {
constexpr double rounding = 0x1p-53;
}

TEST_CASE("fold_batch_norm: a worked example of one channel") {
  std::array w{.5, -.25};
  std::array b{.1};
  const std::array gamma{1.5}, beta{.2}, mean{.3}, variance{.04};
  fold_batch_norm(1, 2, gamma.data(), beta.data(), mean.data(), variance.data(), 1e-5, w.data(),
                  b.data());
  // Golden values of 17 digits; a weight is four roundings, the bias three more, and its terms are
  // no larger than it.
  CHECK(w[0] == relative(3.7495313378723187, 4 * rounding));
  CHECK(w[1] == relative(-1.8747656689361594, 4 * rounding));
  CHECK(b[0] == relative(-1.2998125351489274, 8 * rounding));
  CHECK(w[0] * 2 + w[1] * 1 + b[0] == relative(4.3244844716595505, 16 * rounding));
  const double normalized = (.5 * 2 - .25 * 1 + .1 - .3) / std::sqrt(.04 + 1e-5) * 1.5 + .2;
  CHECK(normalized == relative(4.3244844716595505, 16 * rounding));
}

TEST_CASE("fold_batch_norm: the folded layer equals layer and norm, for every channel") {
  constexpr std::size_t filters = 3, weights_per_filter = 2;
  const std::array w{1.0, 2.0, -3.0, 0.5, 0.25, -1.0};
  const std::array x{0.7, -0.4};
  const std::array gamma{1.0, -2.0, 0.5}, beta{0.0, 1.0, -1.0}, mean{0.1, -0.2, 3.0},
      variance{1.0, 0.25, 4.0};
  auto folded = w;
  std::array<double, filters> b{};
  fold_batch_norm(filters, weights_per_filter, gamma.data(), beta.data(), mean.data(),
                  variance.data(), 1e-3, folded.data(), b.data());
  for (std::size_t k = 0; k < filters; ++k) {
    const double y = w[2 * k] * x[0] + w[2 * k + 1] * x[1];
    const double expected = (y - mean[k]) / std::sqrt(variance[k] + 1e-3) * gamma[k] + beta[k];
    // Ten roundings on each side, of terms of this magnitude.
    const double factor = std::abs(gamma[k]) / std::sqrt(variance[k] + 1e-3),
                 magnitude = (std::abs(w[2 * k] * x[0]) + std::abs(w[2 * k + 1] * x[1]) +
                              std::abs(mean[k])) *
                                 factor +
                             std::abs(beta[k]);
    CHECK(std::abs(folded[2 * k] * x[0] + folded[2 * k + 1] * x[1] + b[k] - expected) <=
          20 * rounding * magnitude);
  }
}
