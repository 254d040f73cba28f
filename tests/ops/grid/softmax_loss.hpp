// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the loss promises on any device with grids.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/softmax_loss.hpp>

#include "tests/support/stored.hpp"

namespace support {

inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// The score of logits on a device, and its slopes if they are wanted.
template <Number N, class D>
score_sums loss_on(const bench_on<D>& at, int classes, const std::vector<double>& logits,
                   const std::vector<std::int32_t>& labels, double smoothing, double seed,
                   std::vector<double>* slopes, const float* scale = nullptr) {
  const auto z = at.template put_as<N>(logits);
  const auto l = at.put(labels);
  auto dz = at.template put_as<N>(std::vector<double>(logits.size(), 99));
  auto out = at.put(std::vector<score_sums>{{99, 99, 99, 99, 99, 99}});
  softmax_loss(classes, static_cast<int>(labels.size()), z.span().data, l.span().data, smoothing,
               seed, scale, slopes == nullptr ? nullptr : dz.span().data, out.span().data, at.s);
  if (slopes != nullptr) *slopes = at.numbers(dz);
  return at.get(out)[0];
}

/// The CPU's score and slopes of the same logits. Sums are made in double in both, in another order
/// and with another exp: 1e-13 for them, and for slopes the one rounding to N, which of the numbers
/// below a half's least normal one is of a fixed size.
template <Number N, class D>
void loss_is_the_cpus(const bench_on<D>& at, int classes, const std::vector<double>& logits,
                      const std::vector<std::int32_t>& labels, double smoothing) {
  INFO(classes, " classes, ", labels.size(), " samples, smoothing ", smoothing);
  const double seed = 1.0 / 32;
  const auto z = as<N>(logits);
  std::vector<double> dz(z.size()), found;
  const score want = softmax_loss(classes, static_cast<int>(labels.size()), z.data(), labels.data(),
                                  smoothing, seed, dz.data(), cpu::stream{});
  const score got = checked(loss_on<N>(at, classes, z, labels, smoothing, seed, &found), classes);
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
    const double allowed = roundoff<N> * std::abs(dz[i]) + 0x1p-25 * Narrow<N> + 1e-13;
    const double off = std::abs(found[i] - dz[i]) / allowed;
    worst = off <= worst ? worst : off;  // not a number is the worst
  }
  CHECK(worst <= 1);
}

/// Logits of few values, so that many are equal.
template <Number N, class D>
void loss_of_batch(const bench_on<D>& at, int classes, std::size_t samples, double smoothing) {
  random_sequence draw(5, purpose::test, static_cast<std::uint64_t>(classes), samples);
  std::vector<double> z(samples * static_cast<std::size_t>(classes));
  std::vector<std::int32_t> labels(samples);
  for (double& x : z) x = draw.below(33) / 4.0 - 4;
  for (std::int32_t& l : labels)
    l = static_cast<std::int32_t>(draw.below(static_cast<std::uint32_t>(classes)));
  loss_is_the_cpus<N>(at, classes, z, labels, smoothing);
}
/// Sizes around those of blocks.
template <Number N, class D>
void loss_of_all_sizes(const bench_on<D>& at) {
  for (const int classes : {1, 2, 10, 127, 128, 129, 1000})
    for (const double smoothing : {0.0, 0.1}) loss_of_batch<N>(at, classes, 2, smoothing);
  loss_of_batch<N>(at, 10, 0, 0);
}

/// Logits far apart, all equal, and such as are no numbers; the label's own and others'.
template <Number N, class D>
void loss_of_odd_logits(const bench_on<D>& at) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> z{1000, 0, -1000, 5, 5,         5, no_number, 0, 0, 0,  no_number, 0,
                              -3,   3, 1000,  1, -infinite, 2, infinite,  0, 0, -1, -1,        -1};
  const std::vector<std::int32_t> firsts{0, 0, 0, 0, 0, 0, 0, 0}, seconds{1, 1, 1, 1, 1, 1, 1, 1},
      thirds{2, 2, 2, 2, 2, 2, 2, 2};
  for (const auto& labels : {firsts, seconds, thirds})
    for (const double smoothing : {0.0, 0.1}) loss_is_the_cpus<N>(at, 3, z, labels, smoothing);
}

/// The first label that is no class is named in the CPU's words, and its sample gives no numbers.
template <Number N, class D>
void loss_of_no_class(const bench_on<D>& at, std::int32_t bad) {
  std::vector<std::int32_t> labels(261, 1);
  labels[2] = bad;  // a thread's first and a later one, and another's between them
  labels[257] = labels[258] = 77;
  const std::vector<double> z(3 * labels.size(), 0.5);
  std::vector<double> slopes;
  const score_sums sums = loss_on<N>(at, 3, z, labels, 0.1, 1, &slopes);
  const auto said = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string here = said([&] {
    softmax_loss<double>(3, 261, z.data(), labels.data(), 0.1, 1, nullptr, cpu::stream{});
  });
  CHECK(here.find("sample 2 of the batch") != here.npos);
  CHECK(said([&] { (void)checked(sums, 3); }) == here);
  CHECK(std::isnan(sums.loss));
  CHECK(sums.top5 == 258);
  for (std::size_t i = 0; i < slopes.size(); ++i)
    CHECK(std::isnan(slopes[i]) == (labels[i / 3] != 1));
}

}  // namespace support
