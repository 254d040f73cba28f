// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rules on a device and on the CPU, side by side: the same gradients, the same steps, skipped ones
// included.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/planes.hpp>

namespace support {

using namespace cordee;

/// All kinds, one segment without numbers, one of more than a chunk.
inline const std::vector<segment>& ruled_table() {
  static const std::vector<segment> all = [] {
    std::vector<segment> t;
    std::size_t offset = 0;
    for (const auto& [what, size] : {std::pair{kind::weight, 5000u},
                                     {kind::scale, 17u},
                                     {kind::shift, 1u},
                                     {kind::weight, 0u},
                                     {kind::bias, 300u}}) {
      t.push_back({"", what, offset, size});
      offset += aligned(size);
    }
    return t;
  }();
  return all;
}
/// One rank with nobody to mix with, its memory on D.
template <class O, class Real, class D>
class lone_rank {
 public:
  lone_rank(const O& rule, const D& device)
      : rule_(rule), device_(device), s_(device_.open()), planes_(device_, ruled_table()) {}

  void put(span_on<Real, D> plane, const std::vector<Real>& x) {
    device_.copy(plane.data, x.data(), x.size() * sizeof(Real), s_);
    device_.finish(s_);
  }
  void put_weights(const std::vector<Real>& x) { put(planes_.weights(), x); }
  void put_gradient(const std::vector<Real>& x) { put(planes_.grads(), x); }
  /// Weights, gradient and slots.
  [[nodiscard]] std::vector<Real> everything() {
    std::vector<Real> x(planes_.weights().size * std::size_t{2 + O::slots});
    device_.copy(x.data(), planes_.weights().data, x.size() * sizeof(Real), s_);
    device_.finish(s_);
    return x;
  }
  /// As the last step left them.
  [[nodiscard]] const std::vector<double>& grad_squares() const { return grad_squares_; }

  /// A step as the trainer takes it; whether it said something.
  bool step(const moment& now, bool finite) {
    if (!finite && O::needs == agreement::mixing) planes_.clear(planes_.grads(), s_);
    planes_.begin(now, s_);
    planes_.measure(ruled_table(), 0, true, s_);
    planes_.tally(ruled_table(), 0, true, s_);
    const auto v = planes_.sight(ruled_table(), 0, finite);
    const bool spoke = !rule_.propose(v, now, s_).empty();
    if (finite || O::needs != agreement::exact) rule_.accept(v, now, s_);
    device_.copy(grad_squares_.data(), v.grad_squares.data, v.segments.size() * sizeof(double), s_);
    device_.finish(s_);
    return spoke;
  }

 private:
  O rule_;
  D device_;
  typename D::stream s_;
  planes<Real, D, O, solo> planes_;
  std::vector<double> grad_squares_ = std::vector<double>(ruled_table().size());
};

template <class Real>
std::vector<Real> drawn(std::uint32_t seed, double size) {
  random_sequence random(seed, purpose::test, 0, 0);
  const segment& last = ruled_table().back();
  std::vector<Real> x(last.offset + aligned(last.size));
  for (const segment& own : ruled_table())
    for (std::size_t i = own.offset; i < own.end(); ++i)
      x[i] = static_cast<Real>(size * random.normal());
  return x;
}

/// Four steps on both devices, the third with a gradient that is not finite.
template <class Real, class O, class D>
void agrees(const O& rule, const D& device) {
  CAPTURE(rule.describe());
  lone_rank<O, Real, cpu> here(rule, cpu(1));
  lone_rank<O, Real, D> there(rule, device);
  here.put_weights(drawn<Real>(1, 0.1));
  there.put_weights(drawn<Real>(1, 0.1));
  moment now{};
  for (std::uint32_t step = 0; step < 4; ++step) {
    const bool finite = step != 2;
    now.rate = 0.1 / (1 + step);
    auto gradient = drawn<Real>(2 + step, 0.01);
    if (!finite) gradient[7] = std::numeric_limits<Real>::quiet_NaN();
    here.put_gradient(gradient);
    there.put_gradient(gradient);
    CHECK(here.step(now, finite) == there.step(now, finite));
    // A register's root is right within two units, and sums of products are fused elsewhere: some
    // roundings a step, of numbers below 1/2.
    const double most = sizeof(Real) == 4 ? 1e-6 : 1e-12;
    const auto a = here.everything(), b = there.everything();
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double off = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
      if (!(off <= worst) && !(std::isnan(a[i]) && std::isnan(b[i]))) worst = off;
    }
    CHECK(worst <= most);
    const auto norms = here.grad_squares(), others = there.grad_squares();
    for (std::size_t k = 0; k < norms.size(); ++k)
      CHECK((std::abs(norms[k] - others[k]) <= 1e-12 * norms[k] || !finite));
    ++now.step;
    ++now.round;
    if (!finite) continue;
    ++now.applied;
    now.previous_rate = now.rate;
  }
}

}  // namespace support
