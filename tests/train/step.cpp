// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/step.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;

namespace {

/// As a reducer that sends all gradients at once.
struct whole_plane {
  static constexpr bool single_message = true;
};

}  // namespace

TEST_CASE("step_outcome: finite() requires an applied step without a zeroed bucket") {
  CHECK(step_outcome{}.finite());
  CHECK_FALSE(step_outcome{.applied = false}.finite());
  CHECK_FALSE(step_outcome{.zeroed_buckets = 1}.finite());
}

TEST_CASE("throw_nonfinite: the message has tensor, step, learning rate, loss scale and remedy") {
  const step_outcome last{.info = {.step = 7, .epoch = 1.5, .learning_rate = 0.25},
                          .loss_scale = 0.5};
  const std::string message = support::error_message(
      [&] { detail::train::throw_nonfinite(20, "conv1.weight", last, true); });
  for (const char* part :
       {"20 steps in a row had a gradient with a NaN or an infinity", "\"conv1.weight\"", "step 7",
        "epoch 1.5", "learning rate 0.25", "loss scale 0.5", "lower the learning rate"})
    CHECK_MESSAGE(support::contains(message, part), message);
}

TEST_CASE("trainer_options: the checks are on by default") {
  const trainer_options o;
  CHECK(o.check_finite);
  CHECK(o.check_stability);
  CHECK(o.loss_scaling.initial == 65536);
}

TEST_CASE("trainer_options: by default a GPU's buckets are few, and a CPU's short") {
  const auto sizes = []<class D, class R>(std::type_identity<D>, std::type_identity<R>) {
    const std::size_t limit =
        detail::comm::message_limit<R>(detail::train::bucket_bytes<D>({})) / sizeof(float);
    std::vector<double> megabytes;
    for (const bucket& b : detail::core::make_buckets(resnet<50, fp32, cpu>::segments(), limit))
      megabytes.push_back(static_cast<double>(b.size * sizeof(float)) / 1e6);
    return megabytes;
  };
  const std::type_identity<ring<threads>> by_ring;
  const auto on_gpu = sizes(std::type_identity<support::emulated>{}, by_ring),
             on_cpu = sizes(std::type_identity<cpu>{}, by_ring);
  // Of 102 MB. The last bucket is what is left.
  for (std::size_t k = 0; k + 1 < on_gpu.size(); ++k)
    CHECK_MESSAGE((on_gpu[k] >= 8 && on_gpu[k] <= 25), on_gpu[k]);
  CHECK(on_gpu.size() <= 8);
  CHECK(on_cpu.size() > 50);
  CHECK(sizes(std::type_identity<cpu>{}, std::type_identity<whole_plane>{}).size() == 1);
  CHECK(detail::train::bucket_bytes<support::emulated>({.bucket_bytes = 4096}) == 4096);
}
