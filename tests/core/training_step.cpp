// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/training_step.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::core;
using support::relative;

static_assert(agreement::loose < agreement::mixing && agreement::mixing < agreement::exact);

namespace {
struct anywhere {};
template <bool Host>
struct memory {
  static constexpr bool host_memory = Host;
};
}  // namespace

TEST_CASE(
    "batch: the mean over ranks of the samples' loss weights is 1, however they are distributed") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const int samples = 40 + ranks;
    double sum = 0;
    for (int r = 0; r < ranks; ++r) {
      const int count = samples * (r + 1) / ranks - samples * r / ranks;
      const batch<anywhere> share{
          .pixels = {}, .labels = {}, .count = count, .global_samples = samples, .ranks = ranks};
      sum += share.loss_weight() * share.count;
    }
    CHECK(sum / ranks == relative(1, 45 * 0x1p-52));
  }
}

TEST_CASE("batch: loss_weight is ranks / global_samples times the loss scale") {
  const batch<anywhere> b{
      .pixels = {}, .labels = {}, .count = 3, .global_samples = 40, .ranks = 4, .loss_scale = 1024};
  CHECK(b.unscaled_loss_weight() == 0.1);
  CHECK(b.loss_weight() == 1024 * 0.1);
}

TEST_CASE("step_info_of: the argument on a host device, the view's device copy otherwise") {
  const step_info argument{.learning_rate = 1}, device_copy{.learning_rate = 2};
  optimizer_view<float, memory<true>, 0> host_view;
  optimizer_view<float, memory<false>, 0> device_view;
  host_view.info.data = device_view.info.data = &device_copy;
  CHECK(step_info_of(host_view, argument) == &argument);
  CHECK(step_info_of(device_view, argument) == &device_copy);
}

TEST_CASE("metrics: the mean of summed parts is the mean of the whole") {
  metrics whole{.loss = 6, .top1 = 3, .top5 = 7, .count = 8}, sum{};
  for (const metrics part : {metrics{1, 0, 2, 3}, metrics{5, 3, 5, 5}}) sum += part;
  CHECK(sum.mean_loss() == whole.mean_loss());
  CHECK(sum.accuracy() == whole.accuracy());
  CHECK(sum.top5 == whole.top5);
}

TEST_CASE("metrics: what a model does not count is NaN") {
  CHECK(std::isnan(metrics{.top1 = -1, .count = 8}.accuracy()));
  CHECK(std::isnan(metrics{.top1 = -1, .count = 8}.top5_accuracy()));
  CHECK(std::isnan(metrics{.top1 = 2, .top5 = -1, .count = 8}.top5_accuracy()));
  CHECK(metrics{.top1 = 2, .top5 = 4, .count = 8}.top5_accuracy() == 0.5);
}

TEST_CASE("metrics: the mean of no samples is zero, not NaN") {
  CHECK(metrics{}.mean_loss() == 0);
  CHECK(metrics{}.accuracy() == 0);
}

TEST_CASE("step_info: default-constructed members are zero") {
  constexpr step_info start{};
  static_assert(start.step == 0 && start.applied == 0 && start.round == 0);
  static_assert(start.epoch == 0 && start.learning_rate == 0 && start.previous_learning_rate == 0);
  static_assert(optimizer_view<float, anywhere, 2>{}.finite &&
                optimizer_view<float, anywhere, 2>{}.slots.size() == 2);
  static_assert(bucket_view<float, anywhere, 0>{}.slots.empty());
}
