// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The golden vectors and laws are in kfac.cpp; here, which numbers a state has.
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/kfac/kfac.hpp>
#include <cordee/train/kfac/kfac_preconditioner.hpp>

using namespace cordee;
using namespace cordee::detail;

namespace {

constexpr std::array table{
    segment{.name = "fc.weight", .size = 4, .shape = {2, 2}},
    segment{.name = "fc.bias", .kind = kind::bias, .offset = 4, .size = 2, .shape = {2}}};
constexpr std::array x{1.0, 2.0, 0.0, 1.0}, dy{0.5, -0.5, -0.25, 0.25};  // two samples

struct two_samples {
  int count = 2;
  [[nodiscard]] double loss_weight() const { return 1; }
};

}  // namespace

TEST_CASE("kfac_preconditioner: its state is the sums of A and G until they are computed again") {
  const kfac optimizer{sgd{}, 0.03, 1, 2};
  const ops::linear_problem problem{.features = 2, .outputs = 2, .stride = 2};
  train::kfac_preconditioner<self_comm> kept(optimizer, self_comm{}, table, table);
  train::kfac_preconditioner<self_comm> restored(optimizer, self_comm{}, table, table);
  const auto step = [&](auto& preconditioner, std::int64_t k) {
    const step_info info{.step = k, .applied = k};
    preconditioner.begin_pass(two_samples{}, info);
    preconditioner.observe(0, nn::linear_samples<double>{problem, 2, x.data(), dy.data()});
    std::array<double, 6> gradient{0.25, 0.375, -0.25, -0.375, 0.125, -0.125};
    preconditioner.precondition(span_on<double, cpu>{gradient.data(), 6}, info);
    return gradient;
  };
  CHECK(kept.state(0).empty());
  const auto first = step(kept, 0);
  // The number of samples; A of (1, 2, 1) and (0, 1, 1), G of dy: lower triangles by rows.
  const std::vector<double> sums{2, 1, 2, 5, 1, 3, 2, 0.3125, -0.3125, 0.3125};
  CHECK(kept.state(1) == sums);
  CHECK(kept.state(2).empty());  // the step after two computes them again

  restored.restore(sums);
  CHECK(step(restored, 1) == first);  // with these factors
  CHECK(restored.state(1) == sums);
  CHECK_THROWS_WITH_AS(restored.restore({1, 2}), doctest::Contains("other layers"), usage_error);
  restored.restore({});
  CHECK(restored.state(1).empty());
}
