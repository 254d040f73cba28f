// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model small enough to know by heart: f_r(w) = sum a/2 (w - c_r)^2, the toy set "T4" that the
// golden vectors of every rule are stated on. Ranks may have centres of their own; their mean is
// T4's.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>

namespace support {

using namespace cordee;

inline constexpr std::array<segment, 5> t4_table{
    segment{"W1", kind::weight, 0, 4}, segment{"b1", kind::bias, 64, 2},
    segment{"W2", kind::weight, 128, 2}, segment{"b2", kind::bias, 192, 1},
    segment{"seen", kind::statistic, 256, 1}};

inline constexpr std::array<std::array<double, 4>, 4> t4_start{
    {{0.5, -0.3, 0.8, 0.1}, {0, 0.2}, {1, -2}, {0.05}}};
inline constexpr std::array<std::array<double, 4>, 4> t4_curvature{
    {{1, 2, 3, 4}, {1, 2}, {0.5, 0.25}, {1}}};
inline constexpr std::array<std::array<double, 4>, 4> t4_centre{
    {{0.4, -0.1, 0.2, -0.2}, {0.1, -0.1}, {0.7, -1.5}, {0}}};

/// Where a value that is not finite is planted: into the gradient of `segment` at `step`.
struct poison {
  std::int64_t step;
  std::size_t segment;
  double value = std::numeric_limits<double>::quiet_NaN();
};

template <class P>
struct quadratic {
  using precision = P;
  using device = cpu;
  using Real = typename P::master;
  using image = buffer<Real, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  double shift = 0;               // this rank's centres are T4's plus this
  std::vector<poison> poisons{};  // on this rank
  std::chrono::microseconds layer_time{0};
  std::int64_t step = 0;
  double seed_sum = 0;
  std::int64_t samples = 0;
  double loss = 0;

  static constexpr std::span<const segment> segments() { return t4_table; }
  [[nodiscard]] cpu where() const { return cpu{1}; }

  void initialise(span_on<Real, cpu> plane, std::uint64_t) const {
    for (std::size_t k = 0; k < t4_start.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        plane[t4_table[k].offset + i] = static_cast<Real>(t4_start[k][i]);
  }
  [[nodiscard]] image make_image() const { return image(cpu{1}, 320); }
  void publish(span_on<Real, cpu> plane, image& to, cpu::stream) const {
    std::copy(plane.begin(), plane.end(), to.span().begin());
  }
  void forward(const image& w, span_on<Real, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream) {
    if (p == phase::train && b.count > 0) plane[t4_table[4].offset] += 1;  // a running statistic
    samples = b.count;
    seed_sum = b.count == 0 ? 0 : b.seed() * b.count;
    loss = 0;
    for (std::size_t k = 0; k < t4_centre.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double off = static_cast<double>(w.span()[t4_table[k].offset + i]) - centre(k, i);
        loss += t4_curvature[k][i] * off * off / 2 * static_cast<double>(b.count);
      }
  }
  template <class Ready>
  void backward(const image& w, span_on<Real, cpu> grads, into, Ready&& ready, cpu::stream) {
    for (std::size_t k = t4_centre.size(); k-- > 0;) {
      if (layer_time.count() > 0) std::this_thread::sleep_for(layer_time);
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double at = static_cast<double>(w.span()[t4_table[k].offset + i]);
        grads[t4_table[k].offset + i] +=
            static_cast<Real>(seed_sum * t4_curvature[k][i] * (at - centre(k, i)));
      }
      for (const poison& p : poisons)
        if (p.step == step && p.segment == k)
          grads[t4_table[k].offset] = static_cast<Real>(p.value);
      ready(k);
    }
    ++step;
  }
  [[nodiscard]] score read_score(cpu::stream) const { return {loss, 0, 0, samples}; }

 private:
  [[nodiscard]] double centre(std::size_t k, std::size_t i) const {
    return t4_centre[k][i] + shift;
  }
};

/// One sample on each rank.
inline batch<cpu> one_each(int ranks) { return {{}, {}, 1, ranks, ranks}; }

/// The rates of the golden vectors: rate k at epoch k.
inline auto rates(std::vector<double> r) {
  return [r = std::move(r)](double epoch) { return r[static_cast<std::size_t>(epoch)]; };
}

/// The numbers of one segment.
template <class Span>
std::vector<double> numbers(Span plane, std::size_t k) {
  std::vector<double> out;
  for (std::size_t i = 0; i < t4_table[k].size; ++i)
    out.push_back(static_cast<double>(plane[t4_table[k].offset + i]));
  return out;
}

}  // namespace support
