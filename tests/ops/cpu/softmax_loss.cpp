// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/softmax_loss.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

metrics metrics_of(const std::vector<double>& z, std::int32_t label) {
  return softmax_loss<double>(static_cast<int>(z.size()), 1, z.data(), &label, 0, 1, nullptr, {});
}

constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("softmax_loss: the gradient is the derivative, with label smoothing and without") {
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    auto z = normal_numbers(4 * 7, 1);
    const std::vector<std::int32_t> labels{0, 6, 3, 3};
    std::vector<double> dz(z.size());
    const double loss_weight = 1.0 / 32;
    softmax_loss(7, 4, z.data(), labels.data(), smoothing, loss_weight, dz.data(), {});
    const gradient_report report = check_gradient(z, dz, [&] {
      return loss_weight *
             softmax_loss<double>(7, 4, z.data(), labels.data(), smoothing, 1, nullptr, {}).loss;
    });
    CHECK_MESSAGE(report.max_error < 1e-7, report.describe());
  }
}

TEST_CASE("softmax_loss: a sample's gradient sums to zero, and adding a constant changes nothing") {
  auto z = normal_numbers(10, 1);
  const std::int32_t label = 4;
  std::vector<double> dz(10);
  const double before = softmax_loss(10, 1, z.data(), &label, 0.1, 1, dz.data(), {}).loss;
  double sum = 0;
  for (const double g : dz) sum += g;
  CHECK(std::abs(sum) < 1e-15);
  for (double& logit : z) logit += 1000;
  CHECK(softmax_loss(10, 1, z.data(), &label, 0.1, 1, dz.data(), {}).loss ==
        doctest::Approx(before).epsilon(1e-11));
}

TEST_CASE("softmax_loss: golden values of loss and gradient") {
  const std::vector<double> z{2, 1, -1};
  const std::int32_t label = 0;
  std::vector<double> dz(3);
  const auto check = [&](double smoothing, double loss, std::vector<double> gradient) {
    CHECK(std::abs(softmax_loss(3, 1, z.data(), &label, smoothing, 1, dz.data(), {}).loss - loss) <
          1e-11);
    for (std::size_t c = 0; c < 3; ++c) CHECK(std::abs(dz[c] - gradient[c]) < 1e-11);
  };
  check(0, 0.349012216768, {-0.294615487302, 0.259496460342, 0.0351190269593});
  check(0.1, 0.482345550102, {-0.227948820635, 0.226163127009, 0.00178569362601});
}

TEST_CASE("softmax_loss: logits far apart neither overflow nor lose the loss") {
  CHECK(metrics_of({1000, 0}, 0).loss == 0);
  CHECK(metrics_of({1000, 0}, 1).loss == 1000);
}

TEST_CASE("softmax_loss: of equal logits the first ranks above") {
  CHECK(metrics_of({1, 1, 0}, 0).top1 == 1);
  CHECK(metrics_of({1, 1, 0}, 1).top1 == 0);
  CHECK(metrics_of({0, 0, 0, 0, 0, 0}, 4).top5 == 1);
  CHECK(metrics_of({0, 0, 0, 0, 0, 0}, 5).top5 == 0);
}

TEST_CASE("softmax_loss: a NaN logit is never correct, and makes the loss NaN") {
  CHECK(metrics_of({quiet_nan, 0, 0}, 0).top1 == 0);
  CHECK(metrics_of({quiet_nan, 0, 0}, 0).top5 == 0);
  CHECK(metrics_of({quiet_nan, 5, 0}, 1).top1 == 0);
  CHECK(std::isnan(metrics_of({quiet_nan, 5, 0}, 1).loss));
  CHECK(std::isnan(metrics_of({0, quiet_nan, 0}, 0).loss));
}

TEST_CASE("softmax_loss: the first label outside the classes is named, its gradient is NaN") {
  const auto z = normal_numbers(12, 1);
  for (const std::int32_t bad : {-1, 3}) {
    const std::vector<std::int32_t> labels{0, bad, 1, 77};
    std::vector<double> dz(12);
    const metric_sums sums = softmax_loss(3, 4, z.data(), labels.data(), 0.0, 1.0, dz.data(), {});
    CHECK(std::isnan(sums.loss));
    CHECK(sums.count == 4);
    for (std::size_t i = 0; i < dz.size(); ++i) CHECK(std::isnan(dz[i]) == (i / 3 % 2 == 1));
    const std::string label = std::to_string(bad);
    CHECK_THROWS_WITH_AS((void)checked_metrics(sums, 3),
                         doctest::Contains(("sample 1 of the batch has label " + label).c_str()),
                         error);
  }
}

TEST_CASE("softmax_loss: no samples have zero loss and count") {
  const metrics none = softmax_loss<double>(3, 0, nullptr, nullptr, 0, 1, nullptr, {});
  CHECK(none.loss == 0);
  CHECK(none.count == 0);
}
