// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// In optimizers: tests/optim/lars.cpp and lamb.cpp.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/optim/trust_ratio.hpp>

using namespace cordee;
using detail::optim::trust_ratio;

namespace {

struct plain_form {
  static constexpr bool skips_zero_norms = false;
};

struct options {
  using form = plain_form;
  kinds decay_on = kind::weight, adapt_on = kind::weight | kind::bias;
  double weight_decay = 0.5;
  double ratio(double weight_norm, double grad_norm, double decay, double) const {
    return trust_ratio(1, weight_norm, grad_norm, decay, 0);
  }
};

}  // namespace

TEST_CASE("trust_ratio: trust_coefficient |w| / (|g| + decay |w| + epsilon)") {
  CHECK(trust_ratio(0.5, 3, 4, 0, 0) == 0.375);
  CHECK(trust_ratio(0.5, 2, 1, 0.5, 0) == 0.5);
  CHECK(trust_ratio(0.5, 2, 1, 0.5, 2) == 0.25);
}

TEST_CASE("trust_ratio is 1 where a norm is zero, or |g| or the quotient is not finite") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double g : {0.0, 1.0, infinity}) CHECK(trust_ratio(0.5, 0, g, 0.1, 1e-8) == 1);
  for (const double g : {0.0, infinity, std::nan("")})
    CHECK(trust_ratio(0.5, 3, g, 0.1, 1e-8) == 1);
  CHECK(trust_ratio(1, 1e300, 1e-300, 0, 0) == 1);
  CHECK(trust_ratio(1, infinity, 1, 0.1, 0) == 1);
}

TEST_CASE("trust_ratio_body: decay and ratio are those of the segment's kind and norms") {
  struct recorded {
    double decay = -1, learning_rate = -1, ratio = -1;
    void set(double d, double lr, double r) { *this = {d, lr, r}; }
  };
  const double squared_weight_norms[] = {4, 9, 16}, squared_grad_norms[] = {1, 36, 1};
  const step_info info{.learning_rate = 0.25};
  const detail::optim::trust_ratio_body<options, recorded> body{
      {}, squared_weight_norms, squared_grad_norms, &info, {}};
  const recorded weight = body.for_segment(kind::weight, 0), bias = body.for_segment(kind::bias, 1),
                 scale = body.for_segment(kind::scale, 2);
  CHECK((weight.decay == 0.5 && weight.learning_rate == 0.25 && weight.ratio == 2 / (1 + 0.5 * 2)));
  CHECK((bias.decay == 0 && bias.ratio == 0.5));
  CHECK((scale.decay == 0 && scale.ratio == 1));
}
