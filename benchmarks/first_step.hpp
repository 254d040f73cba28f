// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The first step of a residual network, and how far its logits and its loss may be from exact ones.
//
//   |z - z'| / |z|  <=  1.5 G_most e      logits z; e = u + 8 u_32; u: roundoff of what is stored
//   |L / L' - 1|    <=  4 sigma,  sigma = G e |z| |dL/dz| / (L sqrt(numbers of z))
//
// G u is the error of a step in exact arithmetic that rounds only what must be stored
// (rounded_network.hpp), its median over seeds, and G_most u the largest in 16 bits, on two
// samples, as benchmarks/rounding.cpp measures them (benchmarks/results/2026-11-26-rounding.md).
// The library's error in 16 bits is the same; in fp32, whose sums are rounded as well, 4 to 6 times
// as large: the other term of e. The loss takes this error in one direction of many, so its own is
// sigma times a normal number, and its bar finds less: left out, one norm's scale moves the logits
// of ResNet-50 in fp16 by 250 u, and the loss by 40 u.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/layers.hpp"

namespace bench {

/// Half of the distance of 1 and the next number.
template <Precision P>
inline constexpr double unit_roundoff = std::same_as<P, fp16>   ? 0x1p-11
                                        : std::same_as<P, bf16> ? 0x1p-8
                                        : std::same_as<P, fp32> ? 0x1p-24
                                                                : 0x1p-53;
struct rounding_gain {
  double median, most;
};
/// On images of 8x8 (ResNet-8), 32x32 and 224x224.
constexpr rounding_gain gain_of(int depth) {
  return depth == 50   ? rounding_gain{30, 31}
         : depth == 20 ? rounding_gain{0.9, 1.7}
                       : rounding_gain{1.4, 3};
}
template <Precision P>
inline constexpr double step_roundoff = unit_roundoff<P> + 8 * unit_roundoff<fp32>;

/// Weights and samples by seed; of seed 0 those of the layers.
struct first_step {
  doubles plane;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  double loss_scale;

  template <class Net, Precision P>
  static first_step draw(int samples, int seed = 0) {
    constexpr auto at = properties_of<typename Net::layers, Net::input>();
    const auto n = static_cast<std::size_t>(samples);
    first_step step{initial_plane<typename P::storage>(at, seed),
                    std::vector<std::uint8_t>(n * Net::input.size()), std::vector<std::int32_t>(n),
                    std::same_as<P, fp16> ? 1024.0 : 1.0};
    random_sequence random(1 + static_cast<std::uint64_t>(seed), purpose::synthetic, 0, 0);
    for (auto& pixel : step.pixels) pixel = static_cast<std::uint8_t>(random.below(256));
    for (auto& label : step.labels) label = static_cast<std::int32_t>(random.below(Net::classes));
    return step;
  }
  [[nodiscard]] batch<cpu> images() const {
    const int n = static_cast<int>(labels.size());
    return {{pixels.data(), pixels.size()},
            {labels.data(), labels.size()},
            n,
            n,
            1,
            normalize{{.5, .5, .5}, {.25, .25, .25}},
            loss_scale};
  }
  /// As images() are normalized, in double.
  [[nodiscard]] doubles numbers() const {
    doubles x;
    for (const std::uint8_t pixel : pixels) x.push_back((pixel / 255.0 - 0.5) / 0.25);
    return x;
  }
  /// The mean loss of logits, and its gradient.
  [[nodiscard]] double loss(const doubles& logits, doubles& gradient) const {
    const int n = static_cast<int>(labels.size()), classes = static_cast<int>(logits.size()) / n;
    gradient.resize(logits.size());
    return detail::ops::batch_loss(cross_entropy{}, classes, n, logits.data(),
                                   detail::ops::batch_targets{labels.data()}, 1.0 / n,
                                   gradient.data(), cpu::stream{})
               .loss /
           n;
  }
  /// sigma, of exact logits, if the logits' error is `relative`.
  [[nodiscard]] double loss_deviation(const doubles& logits, double relative) const {
    doubles gradient;
    const double of_loss = loss(logits, gradient);
    const auto norm = [](const doubles& x) {
      double squares = 0;
      for (const double a : x) squares += a * a;
      return std::sqrt(squares);
    };
    return relative * norm(logits) * norm(gradient) /
           (of_loss * std::sqrt(static_cast<double>(logits.size())));
  }
};

struct step_result {
  double loss;
  doubles logits, gradient;
};
/// Forward and, if `backward`, the gradient.
template <class Net, class D>
step_result step_of(const D& device, const first_step& step, bool backward = true) {
  using real = typename Net::precision::master;
  Net net(device);
  const auto s = device.make_stream();
  buffer<real, D> weights(device, step.plane.size()), gradient(device, step.plane.size());
  const auto rounded = support::to_storage<real>(step.plane);
  device.copy(weights.span().data, rounded.data(), rounded.size() * sizeof(real), s);
  auto packed = net.make_packed_parameters();
  net.pack_parameters(weights.span(), packed, s);
  upload<D> uploads(device);
  const auto images = step.images();
  net.forward(packed, weights.span(), uploads.to({&images, 1}, s).front(), phase::train, s);
  const double loss = net.read_metrics(s).mean_loss();
  const doubles logits = support::to_doubles(copy_to_host(device, net.logits(), s));
  if (backward)
    net.backward(
        packed, gradient.span(), write_mode::overwrite, [](std::size_t) {}, s);
  return {loss, logits,
          support::to_doubles(copy_to_host<real, D>(device, std::as_const(gradient).span(), s))};
}

}  // namespace bench
