// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cross-layer equalization (Nagel et al., 2019): moves channel scales between two convolutions with
// a batch norm and a ReLU between them, so that channels have similar ranges. Outputs in fp32 are
// unchanged.
//
//   r1 = max |W1 gamma / sqrt(variance + epsilon)|,  r2 = max |W2|   of channel c, between the two
//   s = sqrt(r1 / r2):   gamma <- gamma / s,  beta <- beta / s,  W2[:, c] <- W2[:, c] s
//
// Afterwards r1 = r2. The paper scales W1, into which it has folded the batch norm. Pairs are those
// whose activation no other layer reads, inside residual blocks. A channel whose r1 or r2 is zero
// or not finite is unchanged.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cordee/infer/program/layer_walk.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::infer {

/// Two convolutions and the batch norm between.
struct equalized_pair {
  layer_tensors first, norm, second;
};

/// Finds the pairs of a network. A value is an index of `values`.
class pair_finder {
 public:
  using value = std::size_t;

  value convolution(const convolution_problem&, const layer_tensors& t, value x) {
    values_[x].convolutions.push_back(t);
    return add_value(layer::convolution, {t, {}});
  }
  value batch_norm(const extent&, const layer_tensors& t, value x) {
    use(x);
    return values_[x].produced_by == layer::convolution
               ? add_value(layer::batch_norm, {values_[x].pair.first, t})
               : add_value(layer::other, {});
  }
  value relu(const extent&, value x) {
    use(x);
    return values_[x].produced_by == layer::batch_norm ? add_value(layer::relu, values_[x].pair)
                                                       : add_value(layer::other, {});
  }
  value add(const extent&, value x, value y) {
    use(x);
    return other(y);
  }
  value max_pool(const ops::max_pool_problem&, value x) { return other(x); }
  value global_average_pool(const extent&, value x) { return other(x); }
  value subsample_pad(const ops::subsample_problem&, value x) { return other(x); }
  value linear(const extent&, const layer_tensors&, value x) { return other(x); }

  [[nodiscard]] value input() { return add_value(layer::other, {}); }
  [[nodiscard]] std::vector<equalized_pair> pairs() const {
    std::vector<equalized_pair> all;
    for (const produced_value& m : values_)
      if (m.produced_by == layer::relu && m.other_uses == 0 && m.convolutions.size() == 1)
        all.push_back({m.pair.first, m.pair.second, m.convolutions[0]});
    return all;
  }

 private:
  enum class layer { convolution, batch_norm, relu, other };
  struct produced_value {
    layer produced_by = layer::other;
    std::pair<layer_tensors, layer_tensors> pair;  // the convolution and batch norm before
    std::vector<layer_tensors> convolutions{};     // that read it
    int other_uses = 0;
  };
  void use(value x) { ++values_[x].other_uses; }
  value other(value x) {
    use(x);
    return add_value(layer::other, {});
  }
  value add_value(layer produced_by, std::pair<layer_tensors, layer_tensors> pair) {
    values_.push_back({produced_by, std::move(pair)});
    return values_.size() - 1;
  }

  std::vector<produced_value> values_;
};

template <std::floating_point Real>
void equalize(const equalized_pair& p, Real* plane) {
  const segment &w1 = p.first.trainable[0], &w2 = p.second.trainable[0];
  const auto channels = static_cast<std::size_t>(w1.shape[0]);
  const std::size_t size1 = w1.size / channels, filters = static_cast<std::size_t>(w2.shape[0]),
                    window = w2.size / filters / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    Real& gamma = plane[p.norm.trainable[0].offset + c];
    Real& beta = plane[p.norm.trainable[1].offset + c];
    double r1 = 0, r2 = 0;
    const auto enlarge = [](double& r, Real w) {
      const double a = std::abs(w);
      if (!(a <= r) && !std::isnan(r)) r = a;  // a NaN stays the largest
    };
    for (std::size_t i = 0; i < size1; ++i) enlarge(r1, plane[w1.offset + c * size1 + i]);
    r1 *= std::abs(gamma) /
          std::sqrt(plane[p.norm.statistics[1].offset + c] + ops::batch_norm_problem::epsilon);
    const auto each_weight = [&](const auto& f) {
      for (std::size_t k = 0; k < filters; ++k)
        for (std::size_t i = 0; i < window; ++i)
          f(plane[w2.offset + (k * channels + c) * window + i]);
    };
    each_weight([&](Real w) { enlarge(r2, w); });
    const double s = std::sqrt(r1 / r2);
    if (!(s > 0) || !std::isfinite(s)) continue;
    gamma = static_cast<Real>(gamma / s);
    beta = static_cast<Real>(beta / s);
    each_weight([s](Real& w) { w = static_cast<Real>(w * s); });
  }
}

}  // namespace detail::infer

/// Equalizes the layers of a network whose weights and running statistics are in `plane`. Call it
/// before calibration, and run.adopt_weights() afterwards. Returns the name of the second layer of
/// each pair.
template <class N>
  requires N::device::host_memory
std::vector<std::string> equalize_layers(
    const N& model, span_on<typename N::precision::master, typename N::device> plane) {
  expects(plane.size >= N::plane_size(),
          "equalize_layers: the plane is smaller than the network's table");
  detail::infer::pair_finder finder;
  (void)detail::infer::walk_layers(finder, model, finder.input());
  std::vector<std::string> names;
  for (const detail::infer::equalized_pair& p : finder.pairs()) {
    detail::infer::equalize(p, plane.data);
    names.emplace_back(p.second.name);
  }
  return names;
}

}  // namespace cordee::inline CORDEE_ABI
