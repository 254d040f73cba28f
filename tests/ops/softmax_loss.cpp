// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/softmax_loss.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;

namespace {

score one(const std::vector<double>& z, std::int32_t label) {
  return softmax_loss<double>(static_cast<int>(z.size()), 1, z.data(), &label, 0, 1, nullptr, {});
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("softmax_loss: the gradient is the derivative, with label smoothing and without") {
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    auto z = normal_numbers(4 * 7, 1);
    const std::vector<std::int32_t> labels{0, 6, 3, 3};
    std::vector<double> dz(z.size());
    const double seed = 1.0 / 32;
    softmax_loss(7, 4, z.data(), labels.data(), smoothing, seed, dz.data(), {});
    const gradient_report report = check_gradient(z, dz, [&] {
      return seed *
             softmax_loss<double>(7, 4, z.data(), labels.data(), smoothing, 1, nullptr, {}).loss;
    });
    CHECK_MESSAGE(report.worst < 1e-7, report.sentence());
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

TEST_CASE("softmax_loss: the golden values of section 37") {
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
  CHECK(one({1000, 0}, 0).loss == 0);
  CHECK(one({1000, 0}, 1).loss == doctest::Approx(1000));
}

TEST_CASE("softmax_loss: of equal logits the first one wins") {
  CHECK(one({1, 1, 0}, 0).top1 == 1);
  CHECK(one({1, 1, 0}, 1).top1 == 0);
  CHECK(one({0, 0, 0, 0, 0, 0}, 4).top5 == 1);
  CHECK(one({0, 0, 0, 0, 0, 0}, 5).top5 == 0);
}

TEST_CASE("softmax_loss: a logit that is not a number is never correct, and the loss says so") {
  CHECK(one({not_a_number, 0, 0}, 0).top1 == 0);
  CHECK(one({not_a_number, 0, 0}, 0).top5 == 0);
  CHECK(one({not_a_number, 5, 0}, 1).top1 == 0);
  CHECK(std::isnan(one({not_a_number, 5, 0}, 1).loss));
  CHECK(std::isnan(one({0, not_a_number, 0}, 0).loss));
}

TEST_CASE("softmax_loss: a label outside the classes is an error that names sample and label") {
  const auto z = normal_numbers(9, 1);
  for (const std::int32_t bad : {-1, 3}) {
    const std::vector<std::int32_t> labels{0, bad, 1};
    try {
      softmax_loss<double>(3, 3, z.data(), labels.data(), 0, 1, nullptr, {});
      FAIL("no error");
    } catch (const error& e) {
      const std::string said = e.what();
      CHECK(said.find("sample 1") != said.npos);
      CHECK(said.find("label " + std::to_string(bad)) != said.npos);
    }
  }
}

TEST_CASE("softmax_loss: no samples are the score of nothing") {
  const score none = softmax_loss<double>(3, 0, nullptr, nullptr, 0, 1, nullptr, {});
  CHECK(none.loss == 0);
  CHECK(none.count == 0);
}
