// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/callbacks/best_epoch.hpp>

using cordee::validation_measure;
using cordee::detail::train::best_epoch;

TEST_CASE("best_epoch: has the first of the best values, whichever measure") {
  std::vector<double> values(50);
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = std::fmod(static_cast<double>(k * k + 3 * k), 17);
  for (const std::size_t size : {1u, 2u, 3u, 8u, 50u})
    for (const auto m : {validation_measure::accuracy, validation_measure::loss}) {
      best_epoch seen;
      for (std::size_t k = 0; k < size; ++k) seen.add(m, values[k], static_cast<double>(k) + 0.9);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(size);
      const auto best = m == validation_measure::accuracy ? std::max_element(values.begin(), end)
                                                          : std::min_element(values.begin(), end);
      CHECK(seen.value == *best);
      CHECK(seen.epoch == best - values.begin() + 1);
      CHECK(seen.since == end - best - 1);
    }
}

TEST_CASE("best_epoch: the accuracy of a model that does not count right predictions is refused") {
  const cordee::epoch_record e{.validation = cordee::metrics{.loss = 6, .top1 = -3, .count = 3}};
  CHECK(cordee::detail::train::measure(validation_measure::loss, e, "best") == 2);
  CHECK_THROWS_WITH_AS(
      (void)cordee::detail::train::measure(validation_measure::accuracy, e, "best"),
      "best: this model does not count right predictions (metrics::top1 is below 0): compare the "
      "loss, or have the model count them",
      cordee::error);
}

TEST_CASE("best_epoch: NaN and a gain of minimum_delta alone are no improvement") {
  best_epoch seen;
  CHECK_FALSE(seen.add(validation_measure::loss, std::nan(""), 0));
  CHECK_FALSE(seen.value);
  CHECK(seen.add(validation_measure::loss, 3, 1, 0.5));
  CHECK_FALSE(seen.add(validation_measure::loss, 2.5, 2, 0.5));
  CHECK_FALSE(seen.add(validation_measure::loss, std::numeric_limits<double>::infinity(), 3, 0.5));
  CHECK_FALSE(seen.add(validation_measure::loss, std::nan(""), 4));
  CHECK((seen.value == 3 && seen.epoch == 2 && seen.since == 3));
  CHECK(seen.add(validation_measure::loss, 2.25, 5, 0.5));
  CHECK((seen.epoch == 6 && seen.since == 0));
}
