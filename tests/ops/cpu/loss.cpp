// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/cross_entropy.hpp>
#include <cordee/ops/cpu/loss.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <Number N>
metric_sums cross_entropy_loss(int classes, int samples, const N* logits,
                               const batch_targets& targets, double smoothing, double loss_weight,
                               N* gradient, cpu::stream s) {
  return batch_loss(cross_entropy{smoothing}, classes, samples, logits, targets, loss_weight,
                    gradient, s);
}

metrics metrics_of(const std::vector<double>& z, std::int32_t label) {
  return cross_entropy_loss<double>(static_cast<int>(z.size()), 1, z.data(), {&label}, 0, 1,
                                    nullptr, {});
}

constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("loss: the gradient is the derivative, with label smoothing and without") {
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    auto z = normal_numbers(4 * 7, 1);
    const std::vector<std::int32_t> labels{0, 6, 3, 3};
    std::vector<double> dz(z.size());
    const double loss_weight = 1.0 / 32;
    cross_entropy_loss(7, 4, z.data(), {labels.data()}, smoothing, loss_weight, dz.data(), {});
    const gradient_report report = check_gradient(z, dz, [&] {
      return loss_weight *
             cross_entropy_loss<double>(7, 4, z.data(), {labels.data()}, smoothing, 1, nullptr, {})
                 .loss;
    });
    CHECK_MESSAGE(report.max_error < 1e-7, report.describe());
  }
}

TEST_CASE("loss: a sample's gradient sums to zero, and adding a constant changes nothing") {
  auto z = normal_numbers(10, 1);
  const std::int32_t label = 4;
  std::vector<double> dz(10);
  const double before = cross_entropy_loss(10, 1, z.data(), {&label}, 0.1, 1, dz.data(), {}).loss;
  double sum = 0;
  for (const double g : dz) sum += g;
  CHECK(std::abs(sum) < 1e-15);
  for (double& logit : z) logit += 1000;
  CHECK(cross_entropy_loss(10, 1, z.data(), {&label}, 0.1, 1, dz.data(), {}).loss ==
        doctest::Approx(before).epsilon(1e-11));
}

TEST_CASE("loss: the loss of a mixed sample is the mean of two, weighted") {
  const std::vector<double> z{2, 1, -1};
  const std::int32_t label = 0, other = 2;
  const float weight = 0.3F;
  const auto w = static_cast<double>(weight);
  for (const double smoothing : {0.0, 0.1}) {
    std::vector<double> first(3), second(3), mixed(3);
    const double loss_of_first =
        cross_entropy_loss(3, 1, z.data(), {&label}, smoothing, 1, first.data(), {}).loss;
    const double loss_of_second =
        cross_entropy_loss(3, 1, z.data(), {&other}, smoothing, 1, second.data(), {}).loss;
    const metrics m = cross_entropy_loss(3, 1, z.data(), {&label, &other, &weight}, smoothing, 1,
                                         mixed.data(), {});
    CHECK(std::abs(m.loss - (w * loss_of_first + (1 - w) * loss_of_second)) < 1e-14);
    for (std::size_t c = 0; c < 3; ++c)
      CHECK(std::abs(mixed[c] - (w * first[c] + (1 - w) * second[c])) < 1e-15);
    // 0.3 as a float is 1.2e-8 more, which the difference of the logits, 3, multiplies.
    if (smoothing == 0) CHECK(std::abs(m.loss - 2.44901221677) < 4e-8);
  }
}

TEST_CASE("loss: of a mixed sample the gradient is the derivative, the larger part counts") {
  auto z = normal_numbers(3 * 7, 2);
  const std::vector<std::int32_t> labels{0, 6, 3}, others{6, 6, 1};
  const std::vector<float> weights{0.25F, 0.5F, 1.0F};
  const batch_targets targets{labels.data(), others.data(), weights.data()};
  std::vector<double> dz(z.size());
  cross_entropy_loss(7, 3, z.data(), targets, 0.1, 1, dz.data(), {});
  const gradient_report report = check_gradient(z, dz, [&] {
    return cross_entropy_loss<double>(7, 3, z.data(), targets, 0.1, 1, nullptr, {}).loss;
  });
  CHECK_MESSAGE(report.max_error < 1e-7, report.describe());
  const std::vector<double> logits{4, 0, 3};
  const std::int32_t label = 0, other = 2;
  const auto top1 = [&](float weight) {
    return cross_entropy_loss<double>(3, 1, logits.data(), {&label, &other, &weight}, 0, 1, nullptr,
                                      {})
        .top1;
  };
  CHECK(top1(0.75F) == 1);
  CHECK(top1(0.5F) == 1);
  CHECK(top1(0.25F) == 0);
}

TEST_CASE("loss: another label outside the classes is named") {
  const auto z = normal_numbers(6, 1);
  const std::vector<std::int32_t> labels{0, 1}, others{2, 3};
  const std::vector<float> weights{0.5F, 0.5F};
  std::vector<double> dz(6);
  const metric_sums sums = cross_entropy_loss(
      3, 2, z.data(), {labels.data(), others.data(), weights.data()}, 0, 1, dz.data(), {});
  CHECK((sums.bad_sample == 2 && sums.bad_label == 3));
  CHECK((std::isfinite(dz[0]) && std::isnan(dz[3])));
}

TEST_CASE("loss: logits far apart neither overflow nor lose the loss") {
  CHECK(metrics_of({1000, 0}, 0).loss == 0);
  CHECK(metrics_of({1000, 0}, 1).loss == 1000);
}

TEST_CASE("loss: of equal logits the first ranks above") {
  CHECK(metrics_of({1, 1, 0}, 0).top1 == 1);
  CHECK(metrics_of({1, 1, 0}, 1).top1 == 0);
  CHECK(metrics_of({0, 0, 0, 0, 0, 0}, 4).top5 == 1);
  CHECK(metrics_of({0, 0, 0, 0, 0, 0}, 5).top5 == 0);
}

TEST_CASE("loss: a NaN logit is never correct, and makes the loss NaN") {
  CHECK(metrics_of({quiet_nan, 0, 0}, 0).top1 == 0);
  CHECK(metrics_of({quiet_nan, 0, 0}, 0).top5 == 0);
  CHECK(metrics_of({quiet_nan, 5, 0}, 1).top1 == 0);
  CHECK(std::isnan(metrics_of({quiet_nan, 5, 0}, 1).loss));
  CHECK(std::isnan(metrics_of({0, quiet_nan, 0}, 0).loss));
}

TEST_CASE("loss: the first label outside the classes is named, its gradient is NaN") {
  const auto z = normal_numbers(12, 1);
  for (const std::int32_t bad : {-1, 3}) {
    const std::vector<std::int32_t> labels{0, bad, 1, 77};
    std::vector<double> dz(12);
    const metric_sums sums =
        cross_entropy_loss(3, 4, z.data(), {labels.data()}, 0.0, 1.0, dz.data(), {});
    CHECK(std::isnan(sums.loss));
    CHECK(sums.count == 4);
    for (std::size_t i = 0; i < dz.size(); ++i) CHECK(std::isnan(dz[i]) == (i / 3 % 2 == 1));
    const std::string label = std::to_string(bad);
    CHECK_THROWS_WITH_AS((void)checked_metrics(sums, 3),
                         doctest::Contains(("sample 1 of the batch has label " + label).c_str()),
                         error);
  }
}

TEST_CASE("loss: no samples have zero loss and count") {
  const metrics none = cross_entropy_loss<double>(3, 0, nullptr, {}, 0, 1, nullptr, {});
  CHECK(none.loss == 0);
  CHECK(none.count == 0);
}
