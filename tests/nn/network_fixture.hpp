// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network with memory, a stream and one batch of noise, for the tests of this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/relative.hpp"

namespace cordee::inline CORDEE_ABI {

template <class Net>
struct network_fixture {
  using real = typename Net::precision::master;

  Net net;
  arena<real, cpu> memory;
  typename Net::packed_parameters packed;
  cpu::stream s;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  std::vector<std::size_t> ready_order;

  explicit network_fixture(int samples, std::uint64_t seed = 1, int workers = 1)
      : net(cpu(workers)),
        memory(net.get_device(), Net::segments(), 2),
        packed(net.make_packed_parameters()),
        s(net.get_device().make_stream()),
        pixels(static_cast<std::size_t>(samples) * Net::input.size()),
        labels(static_cast<std::size_t>(samples)) {
    random_sequence random(seed, purpose::test, 7, 7);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.below(256));
    for (auto& l : labels)
      l = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(Net::classes)));
    net.initialize(weights(), seed);
    // Scales and shifts that are not zero, so that every parameter has a gradient.
    for (const segment& s : Net::segments().first(Net::tensors()))
      if (s.kind != kind::weight)
        for (std::size_t i = 0; i < s.size; ++i)
          weights()[s.offset + i] += static_cast<real>(0.1 + 0.3 * random.normal());
  }

  span_on<real, cpu> weights() { return memory.plane(0); }
  span_on<real, cpu> gradients() { return memory.plane(1); }
  std::span<real> numbers() { return weights(); }

  batch<cpu> samples(std::size_t first, std::size_t count, std::int64_t global_samples) const {
    return {.pixels = {pixels.data() + first * Net::input.size(), count * Net::input.size()},
            .labels = {labels.data() + first, count},
            .count = static_cast<int>(count),
            .global_samples = global_samples,
            .normalization = {.mean = {.5f, .5f, .5f, .5f}, .scale = {4, 4, 4, 4}}};
  }
  metrics forward(const batch<cpu>& b, phase p = phase::train) {
    net.pack_parameters(weights(), packed, s);
    net.forward(packed, weights(), b, p, s);
    return net.read_metrics(s);
  }
  metrics forward() { return forward(samples(0, labels.size(), size())); }
  void backward(write_mode mode = write_mode::overwrite) {
    ready_order.clear();
    net.backward(
        packed, gradients(), mode, [&](std::size_t i) { ready_order.push_back(i); }, s);
  }
  double mean_loss() { return forward().loss / static_cast<double>(labels.size()); }
  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }

  /// Compares gradients with finite differences: some elements of every segment, and all parameters
  /// along random directions.
  void check_gradients(std::size_t per_segment = 2) {
    mean_loss();
    backward();
    std::size_t compared = 0;
    for (const segment& s : Net::segments().first(Net::tensors())) {
      const std::span<real> values = numbers().subspan(s.offset, s.size);
      const std::span<const real> gradient(gradients().data + s.offset, s.size);
      const gradient_report report = check_gradient(
          values, gradient, [&] { return mean_loss(); },
          std::max<std::size_t>(1, s.size / per_segment), 1e-6);
      CHECK_MESSAGE(report.max_error < 1e-5, s.name, " ", report.describe());
      compared += report.compared;
    }
    CHECK(compared >= Net::tensors());
    const std::span<real> values = numbers().first(Net::segments()[Net::tensors() - 1].end());
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      const gradient_report report = check_direction(
          values, {gradients().data, values.size()}, normal_numbers(values.size(), seed),
          [&] { return mean_loss(); }, 1e-7);
      CHECK_MESSAGE(report.max_error < 1e-5, "direction ", seed, " ", report.describe());
    }
  }

  /// Frozen segments, each alone, all but each and every second one, keep the bits of what is in
  /// their gradients; the others have the same gradient as without, unless a batch norm is frozen.
  void check_frozen_gradients() {
    constexpr real untouched = 77;
    const std::size_t n = Net::tensors();
    mean_loss();
    backward();
    const std::vector<real> all(gradients().begin(), gradients().end());
    const auto check = [&](write_mode mode, const auto& is_frozen) {
      std::vector<std::uint8_t> frozen(n);
      bool same_statistics = true;
      for (std::size_t k = 0; k < n; ++k) {
        const segment& s = Net::segments()[k];
        frozen[k] = is_frozen(k) ? 1 : 0;
        same_statistics &= frozen[k] == 0 || s.kind != kind::scale;
        const bool is_kept = frozen[k] != 0 || mode == write_mode::overwrite;
        std::fill_n(gradients().data + s.offset, s.size, is_kept ? untouched : real{0});
      }
      net.freeze(frozen);
      mean_loss();
      backward(mode);
      for (std::size_t k = 0; k < n; ++k) {
        const segment& s = Net::segments()[k];
        INFO(s.name);
        const real* const g = gradients().data + s.offset;
        const auto kept = static_cast<std::size_t>(std::count(g, g + s.size, untouched));
        CHECK(kept == (frozen[k] != 0 ? s.size : 0));
        if (frozen[k] == 0 && same_statistics) CHECK(std::equal(g, g + s.size, &all[s.offset]));
      }
    };
    for (const write_mode mode : {write_mode::overwrite, write_mode::add})
      for (std::size_t one = 0; one < n; ++one) {
        check(mode, [&](std::size_t k) { return k == one; });
        check(mode, [&](std::size_t k) { return k != one; });
        check(mode, [&](std::size_t k) { return k % 2 == one % 2; });
      }
    net.freeze({});
  }
};

/// Two networks that differ in their engine alone: loss, every gradient, every running statistic.
template <class A, class B>
void check_same_step(A& one, B& other, double tolerance) {
  CHECK(one.mean_loss() == support::relative(other.mean_loss(), tolerance));
  one.backward();
  other.backward();
  const auto check_close = [tolerance](const segment& s, auto actual, auto expected) {
    double difference = 0, norm = 0;
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      const auto a = static_cast<double>(actual[i]), b = static_cast<double>(expected[i]);
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    CHECK_MESSAGE(std::sqrt(difference) <= tolerance * std::sqrt(norm), s.name);
  };
  for (const segment& s : other.net.segments())
    if (s.kind == kind::statistic)
      check_close(s, one.weights(), other.weights());
    else
      check_close(s, one.gradients(), other.gradients());
}

}  // namespace cordee::inline CORDEE_ABI
