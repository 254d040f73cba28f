// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/int8/correct_bias.hpp>
#include <cordee/train/int8/quantization_report.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Means over samples and pixels of each filter of conv1, by a direct convolution in double; with x
/// and w in bytes if `quantized`.
template <class Run>
std::vector<double> filter_means(Run& run, const batch<cpu>& b, const calibrated_layer& layer,
                                 bool quantized) {
  const auto q = detail::ops::fit_affine(
      static_cast<float>(layer.low), static_cast<float>(layer.high), detail::ops::unsigned_bytes);
  const segment& filters = run.segments()[0];
  const int side = small.image.height;
  const auto pixels = static_cast<std::size_t>(side * side),
             samples = static_cast<std::size_t>(b.count);
  std::vector<double> means(filters.size / 9);
  std::vector<float> x(samples * pixels);
  detail::ops::normalize_bytes<float, 1>(small.image, b.count, b.pixels.data, b.normalization,
                                         x.data(), cpu::stream{});
  for (std::size_t k = 0; k < means.size(); ++k) {
    const float* const w = run.weights().data + filters.offset + 9 * k;
    float largest = 0;
    for (int t = 0; t < 9; ++t) largest = std::max(largest, std::abs(w[t]));
    const auto symmetric = detail::ops::fit_symmetric(largest);
    for (std::size_t n = 0; n < samples; ++n)
      for (int i = 0; i < side; ++i)
        for (int j = 0; j < side; ++j)
          for (int t = 0; t < 9; ++t) {
            const int h = i + t / 3 - 1, l = j + t % 3 - 1;
            if (h < 0 || l < 0 || h >= side || l >= side) continue;
            const float v = x[n * pixels + static_cast<std::size_t>(h * side + l)];
            means[k] += quantized ? 1.0 * q.fake_quantize(v) * symmetric.fake_quantize(w[t])
                                  : 1.0 * v * w[t];
          }
    means[k] /= static_cast<double>(samples * pixels);
  }
  return means;
}

}  // namespace

TEST_CASE("correct_bias: adds the mean error of each filter to the running mean behind it") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{}), again = feed_of(self_comm{});
  const auto layers = calibrate(run, feed, 1);
  const batch<cpu> b = again.next()[0];
  const auto exact = filter_means(run, b, layers[0], false),
             bytes = filter_means(run, b, layers[0], true);
  const auto before = copy_to_host<float, cpu>(cpu(1), run.weights(), {});
  correct_bias(run, layers);
  const auto after = copy_to_host<float, cpu>(cpu(1), run.weights(), {});
  std::size_t changed = 0;
  for (const segment& s : run.segments())
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      changed += before[i] != after[i] ? 1 : 0;
      if (!s.name.ends_with("running_mean")) CHECK(before[i] == after[i]);
      if (s.name != "bn1.running_mean") continue;
      const double wanted = bytes[i - s.offset] - exact[i - s.offset];
      REQUIRE(wanted != 0);
      // 20 roundings of sums of nine products below 9 |x w|, which is below 20, in each y
      CHECK(std::abs(after[i] - before[i] - wanted) <= 40 * 20 * 0x1p-24);
    }
  CHECK(changed > 7 * 8);  // of seven layers of 16 filters or more
}

TEST_CASE("correct_bias: removes the errors' means over all ranks' samples") {
  std::vector<double> first;
  for (const int ranks : {1, 3}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      resnet<8, int8, cpu, small> net;
      trainer run{net, sgd{}, steady, ring{comm}};
      auto feed = feed_of(comm);
      return calibrate(run, feed, 1);
    });
    for (const auto& layers : by_rank)
      for (std::size_t k = 0; k < layers[0].filter_errors.size(); ++k) {
        if (first.size() <= k) first.push_back(layers[0].filter_errors[k]);
        CHECK(std::abs(layers[0].filter_errors[k] - first[k]) <= 1e-12);  // sums of doubles
      }
  }
  REQUIRE(first.size() == 16);
}

TEST_CASE("quantization_report::from: another network's layers on one rank end it on every rank") {
  CHECK(contains(error_at_peer([](threads comm) {
                   resnet<8, int8, cpu, small> net;
                   trainer run{net, sgd{}, steady, ring{comm}};
                   auto feed = feed_of(comm);
                   auto layers = calibrate(run, feed, 1);
                   if (comm.rank() == 0) layers.pop_back();
                   (void)quantization_report::from(run, layers, data, feed.normalization());
                 }),
                 "quantization_report: the layers are not those that calibrate returned"));
}

TEST_CASE("correct_bias: the layers of another network on one rank end it on every rank") {
  CHECK(contains(error_at_peer([](threads comm) {
                   resnet<8, int8, cpu, small> net;
                   trainer run{net, sgd{}, steady, ring{comm}};
                   auto feed = feed_of(comm);
                   auto layers = calibrate(run, feed, 1);
                   if (comm.rank() == 0) layers[3].filter_errors.pop_back();
                   correct_bias(run, layers);
                 }),
                 "correct_bias: the layers are not those that calibrate returned"));
}
