// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of the loss on any GPU device.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/binary_cross_entropy.hpp>
#include <cordee/nn/cross_entropy.hpp>
#include <cordee/nn/loss.hpp>
#include <cordee/nn/mean_squared_error.hpp>
#include <cordee/ops/cpu/loss.hpp>
#include <cordee/ops/gpu/loss.hpp>

#include "tests/support/device_fixture.hpp"

namespace support {

inline constexpr double nan_double = std::numeric_limits<double>::quiet_NaN();

/// The labels of samples; the others are empty where none was mixed.
struct mixed_labels {
  std::vector<std::int32_t> labels, others;
  std::vector<float> weights;

  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] cordee::detail::ops::batch_targets targets() const {
    if (weights.empty()) return {labels.data()};
    return {labels.data(), others.data(), weights.data()};
  }
};

/// The metrics of logits on a device, and the gradient unless `gradient` is null.
template <Number N, class D, Loss L>
cordee::detail::ops::metric_sums loss_on(const device_fixture<D>& at, int classes,
                                         const std::vector<double>& logits,
                                         const mixed_labels& labels, const L& loss,
                                         double loss_weight, std::vector<double>* gradient,
                                         const float* scale = nullptr) {
  const auto z = at.template put_as<N>(logits);
  const auto l = at.put(labels.labels), other = at.put(labels.others);
  const auto w = at.put(labels.weights);
  const bool mixed = !labels.weights.empty();
  const cordee::detail::ops::batch_targets targets{
      l.span().data, mixed ? other.span().data : nullptr, mixed ? w.span().data : nullptr};
  auto dz = at.template put_as<N>(std::vector<double>(logits.size(), 99));
  auto out = at.put(std::vector<cordee::detail::ops::metric_sums>{{{99, 99, 99, 99}, 99, 99}});
  batch_loss(loss, classes, static_cast<int>(labels.size()), z.span().data, targets, loss_weight,
             scale, gradient == nullptr ? nullptr : dz.span().data, out.span().data, at.s);
  if (gradient != nullptr) *gradient = at.numbers(dz);
  return at.get(out)[0];
}

/// Compares metrics and gradient with the CPU's. Both sum in double, in different orders and with
/// different exp: 1e-13, and for gradients one rounding to N, which is absolute below the least
/// normal half.
template <Number N, class D, Loss L>
void check_loss(const device_fixture<D>& at, int classes, const std::vector<double>& logits,
                const mixed_labels& labels, const L& loss) {
  INFO(classes, " classes, ", labels.size(), " samples, ", loss.describe());
  const double loss_weight = 1.0 / 32;
  const auto z = as<N>(logits);
  std::vector<double> dz(z.size()), found;
  const metrics want = batch_loss(loss, classes, static_cast<int>(labels.size()), z.data(),
                                  labels.targets(), loss_weight, dz.data(), cpu::stream{});
  const metrics got = cordee::detail::ops::checked_metrics(
      loss_on<N>(at, classes, z, labels, loss, loss_weight, &found), classes);
  if (std::isnan(want.loss))
    CHECK(std::isnan(got.loss));
  else
    CHECK(std::abs(got.loss - want.loss) <= 1e-13 * std::max(1.0, want.loss));
  CHECK(got.top1 == want.top1);
  CHECK(got.top5 == want.top5);
  CHECK(got.count == want.count);
  double worst = 0;
  for (std::size_t i = 0; i < dz.size(); ++i) {
    if (std::isnan(dz[i]) && std::isnan(found[i])) continue;
    const double allowed =
        roundoff<N> * std::abs(dz[i]) + 0x1p-25 * cordee::detail::precision::StorageOnly<N> + 1e-13;
    const double off = std::abs(found[i] - dz[i]) / allowed;
    worst = off <= worst ? worst : off;  // NaN is the worst
  }
  CHECK(worst <= 1);
}

/// Logits of few values: many are equal.
template <Number N, class D, Loss L>
void check_loss_of_batch(const device_fixture<D>& at, int classes, std::size_t samples,
                         const L& loss) {
  random_sequence draw(5, purpose::test, static_cast<std::uint64_t>(classes), samples);
  std::vector<double> z(samples * static_cast<std::size_t>(classes));
  const auto draw_label = [&] {
    return static_cast<std::int32_t>(draw.below(static_cast<std::uint32_t>(classes)));
  };
  mixed_labels labels{std::vector<std::int32_t>(samples), {}, {}};
  for (double& x : z) x = draw.below(33) / 4.0 - 4;
  for (std::int32_t& l : labels.labels) l = draw_label();
  check_loss<N>(at, classes, z, labels, loss);
  for (std::size_t n = 0; n < samples; ++n) {
    labels.others.push_back(draw_label());
    labels.weights.push_back(static_cast<float>(draw.below(5)) / 4);
  }
  check_loss<N>(at, classes, z, labels, loss);
}
/// Sizes around multiples of the block size.
template <Number N, class D>
void check_all_sizes(const device_fixture<D>& at) {
  for (const int classes : {1, 2, 10, 127, 128, 129, 1000})
    for (const double smoothing : {0.0, 0.1})
      check_loss_of_batch<N>(at, classes, 2, cross_entropy{smoothing});
  check_loss_of_batch<N>(at, 10, 0, cross_entropy{});
}
/// The losses beside cross_entropy.
template <Number N, class D>
void check_other_losses(const device_fixture<D>& at) {
  for (const int classes : {1, 10, 129}) {
    check_loss_of_batch<N>(at, classes, 2, binary_cross_entropy{});
    check_loss_of_batch<N>(at, classes, 2, binary_cross_entropy{0.1, 0.2});
    check_loss_of_batch<N>(at, classes, 2, mean_squared_error{});
  }
}

/// Logits far apart, all equal, infinite and NaN; the label's own and others'.
template <Number N, class D>
void check_extreme_logits(const device_fixture<D>& at) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> z{1000,      0, -1000,      5, 5,  5,  nan_double, 0,
                              0,         0, nan_double, 0, -3, 3,  1000,       1,
                              -infinite, 2, infinite,   0, 0,  -1, -1,         -1};
  const std::vector<std::int32_t> firsts{0, 0, 0, 0, 0, 0, 0, 0}, seconds{1, 1, 1, 1, 1, 1, 1, 1},
      thirds{2, 2, 2, 2, 2, 2, 2, 2};
  for (const auto& labels : {firsts, seconds, thirds})
    for (const double smoothing : {0.0, 0.1})
      check_loss<N>(at, 3, z, {labels, {}, {}}, cross_entropy{smoothing});
}

/// The first invalid label is reported as on the CPU; its sample's loss and gradient are NaN.
template <Number N, class D>
void check_invalid_label(const device_fixture<D>& at, std::int32_t invalid) {
  std::vector<std::int32_t> labels(261, 1);
  labels[2] = invalid;  // a thread's first sample, and later ones of two threads
  labels[257] = labels[258] = 77;
  const std::vector<double> z(3 * labels.size(), 0.5);
  std::vector<double> gradient;
  const cordee::detail::ops::metric_sums sums =
      loss_on<N>(at, 3, z, {labels, {}, {}}, cross_entropy{0.1}, 1, &gradient);
  const auto message_of = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string cpu_message = message_of([&] {
    (void)cordee::detail::ops::checked_metrics(
        batch_loss<double>(cross_entropy{0.1}, 3, 261, z.data(), {labels.data()}, 1, nullptr,
                           cpu::stream{}),
        3);
  });
  CHECK(cpu_message.find("sample 2 of the batch") != cpu_message.npos);
  CHECK(message_of([&] { (void)cordee::detail::ops::checked_metrics(sums, 3); }) == cpu_message);
  CHECK(std::isnan(sums.loss));
  CHECK(sums.top5 == 258);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    CHECK(std::isnan(gradient[i]) == (labels[i / 3] != 1));
}

}  // namespace support
