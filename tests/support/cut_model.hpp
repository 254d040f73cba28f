// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model whose tensors the ranks' ranges of a sharded update cut, of odd lengths.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tests/support/quadratic.hpp"

namespace support {

using namespace cordee;

inline constexpr std::array<segment, 6> cut_table{segment{"first.weight", kind::weight, 0, 1000},
                                                  segment{"first.bias", kind::bias, 1024, 3},
                                                  segment{"second.weight", kind::weight, 1088, 65},
                                                  segment{"third.weight", kind::weight, 1216, 701},
                                                  segment{"third.bias", kind::bias, 1920, 1},
                                                  segment{"seen", kind::statistic, 1984, 1}};
inline constexpr std::size_t cut_plane = 2048, cut_trainable = 1984;

inline double cut_center(std::size_t i, int rank) {
  return std::sin(static_cast<double>(i * 13 + static_cast<std::size_t>(rank) * 977 + 1));
}

/// f_r(w) = sum (w - c_r)^2 / 2 with random c_r. Or, where `exact`, gradients that are integers
/// times ranks / samples, of the step and the samples alone: where samples are a power of two,
/// their sums are exact in any order.
template <class P>
struct cut_model {
  using precision = P;
  using device = cpu;
  using Real = typename P::master;
  using packed_parameters = buffer<Real, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;
  static constexpr bool skips_frozen_gradients = true;  // reads packed parameters alone

  int rank = 0;
  std::int64_t poisoned_step = -1;  // NaN in this rank's gradient of the last segment
  std::int64_t taken = 0;
  bool exact = false;
  double weight = 0;
  std::int64_t step = 0, first = 0;
  int count = 0;

  static constexpr std::span<const segment> segments() { return cut_table; }
  [[nodiscard]] cpu get_device() const { return cpu{1}; }
  void initialize(span_on<Real, cpu> plane, std::uint64_t) const {
    for (const segment& s : cut_table)
      for (std::size_t i = s.offset; i < s.end(); ++i)
        plane[i] = static_cast<Real>(cut_center(i, 99));
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(cpu{1}, cut_plane);
  }
  void pack_parameters(span_on<Real, cpu> plane, packed_parameters& to, cpu::stream) const {
    std::copy(plane.begin(), plane.end(), to.span().begin());
  }
  void forward(const packed_parameters&, span_on<Real, cpu>, const batch<cpu>& b, phase,
               cpu::stream) {
    weight = b.count == 0 ? 0 : b.loss_weight() * (exact ? 1 : b.count);
    step = b.info[0].step;
    first = b.first_sample;
    count = b.count;
  }
  template <class Grads, class Ready>
  void backward(const packed_parameters& w, const Grads& grads, write_mode, Ready&& ready,
                cpu::stream) {
    for (std::size_t k = 5; k-- > 0;) {
      for (std::size_t i = cut_table[k].offset; i < cut_table[k].end(); ++i)
        grads[i] += static_cast<Real>(
            weight * (exact ? sum(i) : static_cast<double>(w.span()[i]) - cut_center(i, rank)));
      if (taken == poisoned_step && k == 4)
        grads[cut_table[4].offset] = std::numeric_limits<Real>::quiet_NaN();
      ready(k);
    }
    ++taken;
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {0, 0, 0, 1}; }

 private:
  [[nodiscard]] double sum(std::size_t i) const {
    std::int64_t all = 0;
    for (std::int64_t s = first; s < first + count; ++s)
      all += (static_cast<std::int64_t>(i) * 7 + s * 5 + step * 3) % 17 - 8;
    return static_cast<double>(all);
  }
};

struct cut_rate {
  double operator()(double) const { return 0.05; }
};

/// The trained numbers of weights, then of the optimizer's slots, all whole.
template <class Run>
auto whole_state(Run& run, int slots) {
  using Real = typename Run::Real;
  std::vector<Real> all(run.weights().begin(), run.weights().begin() + cut_trainable);
  for (int k = 0; k < slots; ++k) {
    std::vector<Real> plane(cut_plane);
    if constexpr (requires { run.shard(); })
      run.gather_slot(k, {plane.data(), plane.size()});
    else
      std::copy(run.slot(k).begin(), run.slot(k).end(), plane.begin());
    all.insert(all.end(), plane.begin(), plane.begin() + cut_trainable);
  }
  return all;
}

}  // namespace support
