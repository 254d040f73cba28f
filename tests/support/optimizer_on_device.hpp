// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an optimizer on a device and on the CPU side by side: the same gradients, the same steps,
// skipped ones included.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/train/step/planes.hpp>

namespace support {

using namespace cordee;

/// All kinds of segments, an empty one, and one of more than a chunk.
inline const std::vector<segment>& test_segments() {
  static const std::vector<segment> all = [] {
    std::vector<segment> t;
    std::size_t offset = 0;
    for (const auto& [what, size] : {std::pair{kind::weight, 5000u},
                                     {kind::scale, 17u},
                                     {kind::shift, 1u},
                                     {kind::weight, 0u},
                                     {kind::bias, 300u}}) {
      t.push_back({"", what, offset, size});
      offset += detail::core::align_up(size);
    }
    return t;
  }();
  return all;
}
/// A single rank whose planes are on D.
template <class O, class Real, class D>
class single_rank {
 public:
  single_rank(const O& optimizer, const D& device)
      : optimizer_(optimizer),
        device_(device),
        s_(device_.make_stream()),
        planes_(device_, test_segments()) {}

  void put(span_on<Real, D> plane, const std::vector<Real>& x) {
    device_.copy(plane.data, x.data(), x.size() * sizeof(Real), s_);
    device_.finish(s_);
  }
  void put_weights(const std::vector<Real>& x) {
    put(planes_.weights(), x);
    planes_.initialize(optimizer_, solo{}, {}, s_);
  }
  void put_gradient(const std::vector<Real>& x) { put(planes_.grads(), x); }
  /// Weights, gradient and slots.
  [[nodiscard]] std::vector<Real> everything() {
    std::vector<Real> x(planes_.weights().size * std::size_t{2 + O::slots});
    device_.copy(x.data(), planes_.weights().data, x.size() * sizeof(Real), s_);
    device_.finish(s_);
    return x;
  }
  /// Of the last step.
  [[nodiscard]] const std::vector<double>& squared_grad_norms() const {
    return squared_grad_norms_;
  }

  /// One step as the trainer performs it; returns whether the optimizer's propose() returned a
  /// description.
  bool step(const step_info& info, bool finite) {
    if (!finite && O::needs == agreement::mixing) planes_.clear(planes_.grads(), s_);
    planes_.begin_step(info, true, s_);
    planes_.compute_norms(test_segments(), 0, true, s_);
    planes_.record_norms(test_segments(), 0, true, s_);
    const auto v = planes_.view_of(test_segments(), 0, finite);
    const bool proposed = !cordee::detail::optim::proposal(optimizer_, v, info, s_).empty();
    if (finite || O::needs != agreement::exact) optimizer_.accept(v, info, s_);
    device_.copy(squared_grad_norms_.data(), v.squared_grad_norms.data,
                 v.segments.size() * sizeof(double), s_);
    device_.finish(s_);
    return proposed;
  }

 private:
  O optimizer_;
  D device_;
  typename D::stream s_;
  detail::train::planes<Real, D, O, solo> planes_;
  std::vector<double> squared_grad_norms_ = std::vector<double>(test_segments().size());
};

template <class Real>
std::vector<Real> normal_plane(std::uint32_t seed, double size) {
  random_sequence random(seed, purpose::test, 0, 0);
  const segment& last = test_segments().back();
  std::vector<Real> x(last.offset + detail::core::align_up(last.size));
  for (const segment& own : test_segments())
    for (std::size_t i = own.offset; i < own.end(); ++i)
      x[i] = static_cast<Real>(size * random.normal());
  return x;
}

/// Four steps on both devices, the third with a gradient that is not finite.
template <class Real, class O, class D>
void expect_same_as_cpu(const O& optimizer, const D& device) {
  CAPTURE(optimizer.describe());
  single_rank<O, Real, cpu> on_cpu(optimizer, cpu(1));
  single_rank<O, Real, D> on_device(optimizer, device);
  on_cpu.put_weights(normal_plane<Real>(1, 0.1));
  on_device.put_weights(normal_plane<Real>(1, 0.1));
  step_info info{};
  for (std::uint32_t step = 0; step < 4; ++step) {
    const bool finite = step != 2;
    info.learning_rate = 0.1 / (1 + step);
    auto gradient = normal_plane<Real>(2 + step, 0.01);
    if (!finite) gradient[7] = std::numeric_limits<Real>::quiet_NaN();
    on_cpu.put_gradient(gradient);
    on_device.put_gradient(gradient);
    CHECK(on_cpu.step(info, finite) == on_device.step(info, finite));
    // The GPU's square root is accurate to two units and its compiler fuses multiplications and
    // additions: some roundings per step, relative to numbers above 1, such as the momentum of
    // steps g / sqrt(0.01 g^2), and of numbers below 1/2.
    const double tolerance = sizeof(Real) == 4 ? 1e-6 : 1e-12;
    const auto a = on_cpu.everything(), b = on_device.everything();
    double max_error = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) /
                           std::max(1.0, std::abs(static_cast<double>(a[i])));
      if (!(error <= max_error) && !(std::isnan(a[i]) && std::isnan(b[i]))) max_error = error;
    }
    CHECK(max_error <= tolerance);
    const auto norms = on_cpu.squared_grad_norms(), device_norms = on_device.squared_grad_norms();
    for (std::size_t k = 0; k < norms.size(); ++k)
      CHECK((std::abs(norms[k] - device_norms[k]) <= 1e-12 * norms[k] || !finite));
    ++info.step;
    ++info.round;
    if (!finite) continue;
    ++info.applied;
    info.previous_learning_rate = info.learning_rate;
  }
}

}  // namespace support
