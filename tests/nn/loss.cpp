// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/nn/binary_cross_entropy.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/loss.hpp>
#include <cordee/nn/mean_squared_error.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>

#include "tests/nn/loss_fixture.hpp"
#include "tests/nn/network_fixture.hpp"

using namespace cordee;

namespace {

// A loss of a user's own: the focal loss (Lin et al., 2017), L = -sum(y (1 - p)^2 log p).
//   dL/dz = p D - d,  d = y (2 (1 - p) p log p - (1 - p)^2) (-1),  D = sum(d)
struct focal {
  struct sample_loss {
    double value, largest, sum, total;

    [[nodiscard]] double p(double z) const { return std::exp(z - largest) / sum; }
    [[nodiscard]] double log_p(double z) const { return z - largest - std::log(sum); }
    [[nodiscard]] double derivative(double z, double y) const {  // p times that by p
      const double q = 1 - p(z);
      return y * (2 * q * p(z) * log_p(z) - q * q);
    }
    [[nodiscard]] double gradient(double z, double y) const {
      return derivative(z, y) - p(z) * total;
    }
  };
  template <class Sample>
  sample_loss operator()(const Sample& s) const {
    const double largest = s.max_logit();
    const double sum = s.sum([=](double z, double) { return std::exp(z - largest); });
    sample_loss l{0, largest, sum, 0};
    l.value = s.sum([l](double z, double y) {
      const double q = 1 - l.p(z);
      return -y * q * q * l.log_p(z);
    });
    l.total = s.sum([l](double z, double y) { return l.derivative(z, y); });
    return l;
  }
  bool operator==(const focal&) const = default;
};

template <Loss L>
using small_network = network<sequential<convolution<4, 3>, global_average_pool, linear<3>>, fp64,
                              cpu, reference, extent{1, 4, 4}, 3>::with_loss<L>;

struct nothing {};
static_assert(!Loss<nothing> && Loss<cross_entropy> && Loss<focal>);

}  // namespace

TEST_CASE("loss: one of a user's own against PyTorch and finite differences") {
  // -(t * (1 - p)**2 * log p).sum() of p = softmax(z), by torch.autograd
  check_golden(evaluate_loss(focal{}, {2, 1, -1}, 0, 2, 0.25F), 2.346009370833698,
               {0.595529193356994, 0.24040705751008568, -0.8359362508670797});
  check_derivative(focal{});
}

TEST_CASE_TEMPLATE("loss: a network's gradient is that of its loss", L, cross_entropy,
                   binary_cross_entropy, mean_squared_error, focal) {
  network_fixture<small_network<L>>(5).check_gradients();
}

TEST_CASE("loss: evaluation reports the loss of in_evaluation, training its own") {
  network_fixture<small_network<binary_cross_entropy>> smooth(4), sharp(4);
  smooth.net.loss = binary_cross_entropy{.label_smoothing = 0.1};
  const auto whole = sharp.samples(0, 4, 4);
  CHECK(smooth.forward().loss != sharp.forward().loss);
  CHECK(smooth.forward(whole, phase::evaluate).loss == sharp.forward(whole, phase::evaluate).loss);
}
