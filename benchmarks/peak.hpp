// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the multiply-add units can do, by a loop that touches registers only. Timed in turn with
// what is held to it, so that a change of clock or a neighbour's load meets both.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/simd.hpp>

#include "benchmarks/options.hpp"

namespace bench {

class fma_peak {
 public:
  explicit fma_peak(int threads) : sink_(static_cast<std::size_t>(threads)) {
    for (int i = 0; i < sums; ++i) start_[i] = 0.25f / static_cast<float>(i + 1);
  }

  /// Once more; the shortest counts.
  void time(cordee::cpu::stream s) {
    const double before = now();
    parallel(s, sink_.size(), 1,
             [&](std::size_t worker, std::size_t) { sink_[worker] = spin(start_); });
    least_ = std::min(least_, now() - before);
  }

  /// Operations a second, a multiply-add being two.
  [[nodiscard]] double rate() const {
    return 2.0 * turns * sums * cordee::lanes<float> * static_cast<double>(sink_.size()) / least_;
  }
  /// The loop has a purpose.
  [[nodiscard]] bool is_plausible() const { return sink_[0] >= 0; }

 private:
  /// Multiply-adds on sums that all differ, or the compiler would keep one of them; enough of them
  /// to hide an FMA's latency, few enough for 16 registers. About as long as a layer takes.
  static constexpr int sums = 12, turns = 1'000'000;

  [[gnu::noinline]] static float spin(const float* start) {
    using namespace cordee;
    constexpr int V = lanes<float>;
    const vec<float, V> a = vec<float, V>{} + start[0], b = a * 0.5f;
    vec<float, V> sum[sums];
    for (int i = 0; i < sums; ++i) sum[i] = b + start[i];
    for (int turn = 0; turn < turns; ++turn)
#pragma GCC unroll 16
      for (int i = 0; i < sums; ++i) sum[i] = sum[i] * a + b;
    for (int i = 1; i < sums; ++i) sum[0] += sum[i];
    return sum[0][0];
  }

  float start_[sums];
  std::vector<float> sink_;
  double least_ = 1e9;
};

}  // namespace bench
