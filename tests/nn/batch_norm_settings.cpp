// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include <cordee/nn/batch_norm_settings.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

TEST_CASE("batch_norm_settings: the last batch's statistics are refused on a GPU, by a sentence") {
  detail::nn::batch_norm_settings settings;
  settings.check_batch_norms(true);
  settings.check_batch_norms(false);
  settings.batch_norm_moving_average = false;
  settings.check_batch_norms(true);
  CHECK(
      support::contains(support::error_message([&] { settings.check_batch_norms(false); }),
                        "network: .batch_norm_moving_average = false is not written for GPUs yet"));
}

TEST_CASE("batch_norm_settings: an epoch of freezing that is NaN, hence never comes, is refused") {
  detail::nn::batch_norm_settings settings;
  settings.freeze_batch_norm_at = std::numeric_limits<double>::quiet_NaN();
  CHECK(support::contains(support::error_message([&] { settings.check_batch_norms(true); }),
                          "network: .freeze_batch_norm_at is NaN"));
}
