// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The quadratic model of custom_quadratic.hpp on an emulated GPU: its gradients are those of
// kernels, which a function of the host submits.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/custom_quadratic.hpp"

namespace support {

/// What quadratic_pass computes of tensor k, and a share of the loss.
template <class Real>
struct quadratic_gradient_op {
  std::size_t k;
  const Real* w;
  Real* g;
  double weight, own;

  void operator()(std::size_t i) const {
    g[i] += static_cast<Real>(weight * t4_curvature[k][i] *
                              (static_cast<double>(w[i]) - (t4_center[k][i] + own)));
  }
};
template <class Real>
struct count_pass_op {
  Real* seen;
  metrics* sums;
  double loss;

  void operator()(std::size_t) const {
    if (seen != nullptr) *seen += 1;
    sums->loss += loss;
  }
};
template <class Real>
struct evaluate_op {
  const Real* w;
  metrics* sums;

  void operator()(std::size_t) const { sums->loss += static_cast<double>(w[0]); }
};

/// Whether these are the same but for some ten roundings of numbers below 4 in each of five steps:
/// a compiler may fuse a product and a sum in a kernel and not on the CPU.
template <class Real>
bool same_but_for_rounding(const std::vector<Real>& a, const std::vector<Real>& b) {
  constexpr double apart = 5 * 10 * 4 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= apart;
  return same;
}

/// Which stream the kernels of a pass run on.
enum class kernels_on { step, own };

template <class P, class D>
struct device_quadratic_pass {
  using Real = typename P::master;
  typename D::stream own_stream;
  kernels_on where = kernels_on::step;
  calls order = calls::mixed;
  Real *kept_values = nullptr, *kept_gradient = nullptr;  // of W1, where the model keeps it

  metrics operator()(shift own, model_pass<Real, D>& pass) const {
    const auto count = pass.update().count;
    if (!pass.trains()) {
      for_each(pass.stream(), 1, evaluate_op<Real>{pass.weights("W1").data, pass.sums().data});
      return {.top1 = -1, .count = count};
    }
    const D& device = pass.get_device();
    const auto s = where == kernels_on::own ? own_stream : pass.stream();
    if (where == kernels_on::own) device.await(s, device.record(pass.stream()));
    for_each(s, 1, count_pass_op<Real>{pass.weights("seen").data, pass.sums().data, 1});
    const double weight = pass.loss_weight() * count;
    std::array<std::size_t, 4> all{2, 0, 3, 1};
    if (order == calls::descending) all = {3, 2, 1, 0};
    for (const std::size_t k : all) {
      const bool kept = k == 0 && kept_values != nullptr;
      if (kept) device.clear(kept_gradient, t4_table[k].size * sizeof(Real), s);
      for_each(
          s, t4_table[k].size,
          quadratic_gradient_op<Real>{k, kept ? kept_values : pass.weights(k).data,
                                      kept ? kept_gradient : pass.gradient(k).data, weight, own});
      if (order == calls::none) continue;
      if (where == kernels_on::own)
        pass.ready(k, s);
      else
        pass.ready(k);
    }
    if (order == calls::none && where == kernels_on::own)
      device.await(pass.stream(), device.record(s));
    return {.top1 = -1, .count = count};
  }
};

/// `f` as the model's function; a model of the quadratic's.
template <class P, class D>
custom_model<shift, P, D> quadratic_model_on(const D& device,
                                             typename custom_model<shift, P, D>::function f) {
  using Real = typename P::master;
  return {t4_list(), std::move(f), device,
          [device](const segment& s, span_on<Real, D> to, std::uint64_t) {
            std::vector<Real> start(s.size);
            for (std::size_t k = 0; k < t4_start.size(); ++k)
              if (t4_table[k].name == s.name)
                for (std::size_t i = 0; i < s.size; ++i)
                  start[i] = static_cast<Real>(t4_start[k][i]);
            const typename D::stream at_once{};
            device.copy(to.data, start.data(), s.size * sizeof(Real), at_once);
            device.finish(at_once);
          }};
}
template <class P, class D>
custom_model<shift, P, D> quadratic_model_on(const D& device, calls order = calls::mixed,
                                             kernels_on where = kernels_on::step) {
  return quadratic_model_on<P>(device,
                               device_quadratic_pass<P, D>{device.make_stream(), where, order});
}

}  // namespace support
