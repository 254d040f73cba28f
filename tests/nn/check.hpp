// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network with everything it needs to run once, for the tests of this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/gradient.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Net>
struct bench {
  using real = typename Net::precision::master;

  Net net;
  arena<real, cpu> memory;
  typename Net::image image;
  cpu::stream s;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  std::vector<std::size_t> announced;

  explicit bench(int samples, std::uint64_t seed = 1, int workers = 1)
      : net(cpu(workers)),
        memory(net.where(), Net::segments(), 2),
        image(net.make_image()),
        s(net.where().open()),
        pixels(static_cast<std::size_t>(samples) * Net::input.size()),
        labels(static_cast<std::size_t>(samples)) {
    random_sequence random(seed, purpose::test, 7, 7);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.below(256));
    for (auto& l : labels)
      l = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(Net::classes)));
    net.initialise(weights(), seed);
    // Every parameter takes part: no scale of zero, no shift of zero.
    for (const segment& one : Net::segments().first(Net::tensors()))
      if (one.what != kind::weight)
        for (std::size_t i = 0; i < one.size; ++i)
          weights()[one.offset + i] += static_cast<real>(0.1 + 0.3 * random.normal());
  }

  span_on<real, cpu> weights() { return memory.plane(0); }
  span_on<real, cpu> gradients() { return memory.plane(1); }
  std::span<real> numbers() { return weights(); }

  batch<cpu> samples(std::size_t first, std::size_t count, std::int64_t global) const {
    return {.pixels = {pixels.data() + first * Net::input.size(), count * Net::input.size()},
            .labels = {labels.data() + first, count},
            .count = static_cast<int>(count),
            .global = global,
            .norm = {.mean = {.5f, .5f, .5f, .5f}, .scale = {4, 4, 4, 4}}};
  }
  score forward(const batch<cpu>& b, phase what = phase::train) {
    net.publish(weights(), image, s);
    net.forward(image, weights(), b, what, s);
    return net.read_score(s);
  }
  score forward() { return forward(samples(0, labels.size(), all())); }
  void backward(into mode = into::overwrite) {
    announced.clear();
    net.backward(
        image, gradients(), mode, [&](std::size_t i) { announced.push_back(i); }, s);
  }
  double mean_loss() { return forward().loss / static_cast<double>(labels.size()); }
  std::int64_t all() const { return static_cast<std::int64_t>(labels.size()); }

  /// Some elements of every segment, and all of them along random directions.
  void check_gradients(std::size_t per_segment = 2) {
    mean_loss();
    backward();
    std::size_t compared = 0;
    for (const segment& one : Net::segments().first(Net::tensors())) {
      const std::span<real> at = numbers().subspan(one.offset, one.size);
      const std::span<const real> gradient(gradients().data + one.offset, one.size);
      const gradient_report report = check_gradient(
          at, gradient, [&] { return mean_loss(); },
          std::max<std::size_t>(1, one.size / per_segment), 1e-6);
      CHECK_MESSAGE(report.worst < 1e-5, one.name, " ", report.sentence());
      compared += report.compared;
    }
    CHECK(compared >= Net::tensors());
    const std::span<real> at = numbers().first(Net::segments()[Net::tensors() - 1].end());
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      const gradient_report report = check_direction(
          at, {gradients().data, at.size()}, normal_numbers(at.size(), seed),
          [&] { return mean_loss(); }, 1e-7);
      CHECK_MESSAGE(report.worst < 1e-5, "direction ", seed, " ", report.sentence());
    }
  }
};

/// Two networks that differ in their engine alone: loss, every gradient, running statistics.
template <class A, class B>
void check_same_step(A& one, B& other, double tolerance) {
  CHECK(one.mean_loss() == doctest::Approx(other.mean_loss()).epsilon(tolerance));
  one.backward();
  other.backward();
  for (const segment& s : other.net.segments().first(other.net.tensors())) {
    double difference = 0, norm = 0;
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      const auto a = static_cast<double>(one.gradients()[i]);
      const auto b = static_cast<double>(other.gradients()[i]);
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    CHECK_MESSAGE(std::sqrt(difference) <= tolerance * std::sqrt(norm), s.name);
  }
  const auto first = other.net.segments()[other.net.tensors()].offset;
  for (std::size_t i = first; i < other.net.plane_size(); ++i)
    CHECK(static_cast<double>(one.weights()[i]) ==
          doctest::Approx(static_cast<double>(other.weights()[i])).epsilon(tolerance));
}

}  // namespace cordee::inline CORDEE_ABI
