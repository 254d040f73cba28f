// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The quadratic model f_r(w) = sum a/2 (w - c_r)^2 on the toy set "T4" of docs/mathematics.md, 1.4,
// on which the golden vectors of all optimizers are stated. Ranks may have different centers c_r.
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
#include <cordee/core/training_step.hpp>
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
inline constexpr std::array<std::array<double, 4>, 4> t4_center{
    {{0.4, -0.1, 0.2, -0.2}, {0.1, -0.1}, {0.7, -1.5}, {0}}};

/// A value, by default NaN, that replaces an element of the gradient of `segment` at `step`.
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
  using packed_parameters = buffer<Real, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  double shift = 0;               // this rank's centers are T4's plus this
  std::vector<poison> poisons{};  // on this rank
  std::chrono::microseconds layer_time{0};
  std::int64_t step = 0;
  double weight_sum = 0;
  std::int64_t samples = 0;
  double loss = 0;

  static constexpr std::span<const segment> segments() { return t4_table; }
  [[nodiscard]] cpu get_device() const { return cpu{1}; }

  void initialize(span_on<Real, cpu> plane, std::uint64_t) const {
    for (std::size_t k = 0; k < t4_start.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        plane[t4_table[k].offset + i] = static_cast<Real>(t4_start[k][i]);
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(cpu{1}, 320);
  }
  void pack_parameters(span_on<Real, cpu> plane, packed_parameters& to, cpu::stream) const {
    std::copy(plane.begin(), plane.end(), to.span().begin());
  }
  void forward(const packed_parameters& w, span_on<Real, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream) {
    if (p == phase::train && b.count > 0) plane[t4_table[4].offset] += 1;  // a running statistic
    for (const poison& x : poisons)
      if (p == phase::train && x.step == step && x.segment == 4)
        plane[t4_table[4].offset] = static_cast<Real>(x.value);
    samples = b.count;
    weight_sum = b.count == 0 ? 0 : b.loss_weight() * b.count;
    loss = 0;
    for (std::size_t k = 0; k < t4_center.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double off = static_cast<double>(w.span()[t4_table[k].offset + i]) - center(k, i);
        loss += t4_curvature[k][i] * off * off / 2 * static_cast<double>(b.count);
      }
  }
  template <class Ready>
  void backward(const packed_parameters& w, span_on<Real, cpu> grads, write_mode, Ready&& ready,
                cpu::stream) {
    for (std::size_t k = t4_center.size(); k-- > 0;) {
      if (layer_time.count() > 0) std::this_thread::sleep_for(layer_time);
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double at = static_cast<double>(w.span()[t4_table[k].offset + i]);
        grads[t4_table[k].offset + i] +=
            static_cast<Real>(weight_sum * t4_curvature[k][i] * (at - center(k, i)));
      }
      for (const poison& p : poisons)
        if (p.step == step && p.segment == k)
          grads[t4_table[k].offset] = static_cast<Real>(p.value);
      ready(k);
    }
    ++step;
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {loss, 0, 0, samples}; }

 private:
  [[nodiscard]] double center(std::size_t k, std::size_t i) const {
    return t4_center[k][i] + shift;
  }
};

/// One sample on each rank.
inline batch<cpu> one_each(int ranks) { return {{}, {}, 1, ranks, ranks}; }

/// The schedule of the golden vectors: learning rate k at epoch k.
inline auto learning_rates(std::vector<double> r) {
  return [r = std::move(r)](double epoch) { return r[static_cast<std::size_t>(epoch)]; };
}

/// The elements of segment k.
template <class Span>
std::vector<double> numbers(Span plane, std::size_t k) {
  std::vector<double> out;
  for (std::size_t i = 0; i < t4_table[k].size; ++i)
    out.push_back(static_cast<double>(plane[t4_table[k].offset + i]));
  return out;
}

}  // namespace support
