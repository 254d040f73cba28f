// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A row of the table that example int8 prints: a network's accuracy, bytes of weights, images a
// second and time of one image, measured.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <cordee/core/decimal.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/resnet_options.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/measure/predict.hpp>

namespace examples {

using namespace cordee;

inline constexpr resnet_options images{.image = {1, 28, 28}, .zero_gamma = false};

/// Bytes of the trained parameters in that precision: convolutions' weights in its bits with a
/// scale per filter where P is quantised, the rest in four bytes.
template <Precision P>
std::size_t weight_bytes(std::span<const segment> table) {
  std::size_t bytes = 0;
  for (const segment& s : table) {
    if (s.kind == kind::statistic) continue;
    bytes += 4 * s.size;
    if constexpr (Quantized<P>)
      if (s.shape[2] > 0)  // (K, C, R, S)
        bytes -= 4 * s.size - s.size * detail::precision::weight_bits<P> / 8 -
                 4 * static_cast<std::size_t>(s.shape[0]);
  }
  return bytes;
}
/// All images of a data set in memory.
struct test_images {
  std::vector<std::uint8_t> pixels;
  std::vector<int> labels;
  static constexpr std::size_t size = images.image.size();

  explicit test_images(const auto& data) : pixels(data.size() * size) {
    for (std::size_t i = 0; i < data.size(); ++i)
      labels.push_back(data.read(i, std::span(pixels).subspan(i * size, size)));
  }
  std::span<const std::uint8_t> first(std::size_t n) const {
    return std::span(pixels).first(std::min(n, labels.size()) * size);
  }
};

struct result {
  const char* name = "";
  double accuracy = 0, bytes = 0, images_a_second = 0, latency = 0;
  double equal = NAN;  // share of predictions that are those of simulated inference
  std::vector<int> predictions{};
};

template <class T>
std::vector<int> largest(const std::vector<T>& scores, std::size_t classes) {
  std::vector<int> out;
  for (auto at = scores.begin(); at != scores.end(); at += static_cast<std::ptrdiff_t>(classes))
    out.push_back(
        static_cast<int>(std::max_element(at, at + static_cast<std::ptrdiff_t>(classes)) - at));
  return out;
}

/// predict(images, size of a batch) -> predictions. The fastest of the repetitions is timed, after
/// a batch that is not: in it the system maps the pages of the network's buffers.
template <class Predict>
result measured(const char* name, int repetitions, std::size_t bytes, const test_images& test,
                const Predict& predict) {
  const auto measure_seconds = [](const auto& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  result out{.name = name, .bytes = static_cast<double>(bytes)};
  double all = 1e9, one = 1e9;
  constexpr std::size_t alone = 200;  // images of batches of one
  constexpr int batch = 250;
  predict(test.first(batch), batch);
  for (int k = 0; k < repetitions; ++k) {
    all = std::min(all,
                   measure_seconds([&] { out.predictions = predict(test.first(-1ULL), batch); }));
    one = std::min(one, measure_seconds([&] { predict(test.first(alone), 1); }));
  }
  std::size_t correct = 0;
  for (std::size_t i = 0; i < test.labels.size(); ++i)
    correct += out.predictions[i] == test.labels[i] ? 1 : 0;
  const auto count = static_cast<double>(test.labels.size());
  out.accuracy = 100 * static_cast<double>(correct) / count;
  out.images_a_second = count / all;
  out.latency = 1e6 * one / static_cast<double>(std::min(alone, test.labels.size()));
  return out;
}
template <class Run>
result measured(const char* name, int repetitions, Run& run, const test_images& test,
                const normalization& norm) {
  return measured(name, repetitions, weight_bytes<typename Run::precision>(run.segments()), test,
                  [&](std::span<const std::uint8_t> pixels, int batch) {
                    return largest(predict(run, pixels, norm, batch), Run::model_type::classes);
                  });
}
inline result measured(const char* name, int repetitions, integer_network net,
                       const test_images& test, const result& simulated) {
  result out = measured(
      name, repetitions, net.parameter_bytes(), test,
      [&](std::span<const std::uint8_t> pixels, int batch) {
        std::vector<std::int32_t> logits(pixels.size() / test_images::size * net.classes());
        const std::size_t each = static_cast<std::size_t>(batch),
                          samples = pixels.size() / test_images::size;
        for (std::size_t n = 0; n < samples; n += each) {
          const std::size_t count = std::min(each, samples - n);
          net.run(pixels.subspan(n * test_images::size, count * test_images::size),
                  std::span(logits).subspan(n * net.classes(), count * net.classes()));
        }
        return largest(logits, net.classes());
      });
  std::size_t equal = 0;
  for (std::size_t i = 0; i < out.predictions.size(); ++i)
    equal += out.predictions[i] == simulated.predictions[i] ? 1 : 0;
  out.equal = 100 * static_cast<double>(equal) / static_cast<double>(out.predictions.size());
  return out;
}

inline void print(const result& r, const result& fp32) {
  std::printf("%-18s %7s %% %7s %10s %6s %10s %10s", r.name, decimal::fixed(r.accuracy, 2).c_str(),
              decimal::with_sign(decimal::fixed(r.accuracy - fp32.accuracy, 2)).c_str(),
              decimal::fixed(r.bytes, 0).c_str(), decimal::fixed(fp32.bytes / r.bytes, 2).c_str(),
              decimal::fixed(r.images_a_second, 0).c_str(), decimal::fixed(r.latency, 0).c_str());
  if (!std::isnan(r.equal)) std::printf(" %9s %%", decimal::fixed(r.equal, 2).c_str());
  std::printf("\n");
  std::fflush(stdout);
}
inline constexpr const char* heading =
    "                    accuracy  - FP32      bytes  fewer   images/s us an image as simulated\n";

}  // namespace examples
