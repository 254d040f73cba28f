// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
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

TEST_CASE(
    "batch_norm_settings: enqueued sums leave the samples of several micro-batches to the host") {
  static constexpr segment scale{.name = "bn1.weight", .kind = kind::scale, .size = 3};
  detail::nn::batch_norm_settings settings;
  settings.one_pixel_scales.push_back(scale);
  int calls = 0;
  settings.share_statistics({.call = [](void* n, std::span<double>) { ++*static_cast<int*>(n); },
                             .context = &calls,
                             .enqueue = [](void*, double*, std::size_t, const void*) {}});
  const auto refusal = [&](std::array<int, 2> counts, std::size_t micro_batches) {
    std::array<batch<cpu>, 2> micro;
    for (std::size_t k = 0; k < 2; ++k) {
      micro[k].count = counts[k];
      micro[k].global_samples = 4;
    }
    return support::error_message([&] {
      settings.expect_several_values(std::span<const batch<cpu>>(micro.data(), micro_batches), 0,
                                     std::span(&scale, 1));
    });
  };
  CHECK(refusal({1, 0}, 1) == "");  // of four samples over ranks
  CHECK(calls == 0);
  CHECK(support::contains(refusal({3, 1}, 2), "batch norm \"bn1\" takes the variance of 1 value"));
  CHECK(refusal({2, 2}, 2) == "");
  CHECK(calls == 2);
}
