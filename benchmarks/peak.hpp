// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The peaks of the multiply-add units and of AMX's tiles in bf16, by loops on registers only. Timed
// in turn with what is compared with them, so that a change of clock frequency or of the machine's
// load affects both.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/permission.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

#include "benchmarks/options.hpp"

namespace bench {

class fma_peak {
 public:
  explicit fma_peak(int threads) : sink_(static_cast<std::size_t>(threads)) {
    for (int i = 0; i < sums; ++i) start_[i] = 0.25f / static_cast<float>(i + 1);
  }

  /// Runs the loop; the shortest time counts.
  void time(cordee::cpu::stream s) {
    const double before = now();
    cordee::detail::device::parallel_chunks(
        s, sink_.size(), 1, [&](std::size_t worker, std::size_t) { sink_[worker] = spin(start_); });
    least_ = std::min(least_, now() - before);
  }

  /// Operations per second; a multiply-add is two.
  [[nodiscard]] double flops() const {
    return 2.0 * iterations * sums * cordee::detail::ops::lanes<float> *
           static_cast<double>(sink_.size()) / least_;
  }
  /// Uses the result, so that the compiler keeps the loop.
  [[nodiscard]] bool is_plausible() const { return sink_[0] >= 0; }

 private:
  /// Multiply-adds on sums with different values, or the compiler would merge them; enough sums to
  /// hide the latency of an FMA, few enough for 16 registers. Takes about as long as a layer.
  static constexpr int sums = 12, iterations = 1'000'000;

  [[gnu::noinline]] static float spin(const float* start) {
    using namespace cordee;
    constexpr int V = detail::ops::lanes<float>;
    const detail::ops::vec<float, V> a = detail::ops::vec<float, V>{} + start[0], b = a * 0.5f;
    detail::ops::vec<float, V> sum[sums];
    for (int i = 0; i < sums; ++i) sum[i] = b + start[i];
    for (int i = 0; i < iterations; ++i)
#pragma GCC unroll 16
      for (int k = 0; k < sums; ++k) sum[k] = sum[k] * a + b;
    for (int i = 1; i < sums; ++i) sum[0] += sum[i];
    return sum[0][0];
  }

  float start_[sums];
  std::vector<float> sink_;
  double least_ = 1e9;
};

/// Peak of AMX, if the build uses it and the system permits it; elsewhere it is not timed and is 0.
class tile_peak {
 public:
  explicit tile_peak(int threads) : threads_(static_cast<std::size_t>(threads)) {}

  void time([[maybe_unused]] cordee::cpu::stream s) {
#if CORDEE_ABI_AMX
    if (!cordee::detail::ops::tiles_permitted()) return;
    const double before = now();
    cordee::detail::device::parallel_chunks(s, threads_, 1,
                                            [](std::size_t, std::size_t) { spin(); });
    least_ = std::min(least_, now() - before);
#endif
  }
  /// Operations per second; a multiply-add is two.
  [[nodiscard]] double flops() const {
    constexpr double of_a_product = 2.0 * 16 * 16 * 32;
    return least_ < never ? iterations * 4 * of_a_product * static_cast<double>(threads_) / least_
                          : 0;
  }

 private:
  static constexpr int iterations = 50'000;
  static constexpr double never = 1e9;

#if CORDEE_ABI_AMX
  /// Four sums, since a product's latency is that of three and a bit.
  static void spin() {
    using namespace cordee::detail::ops;
    tile_shapes shapes;
    for (int t = 0; t < tile_count; ++t) shapes.set(t, tile_rows, tile_bytes);
    default_tile_unit unit(shapes);
    unit.zero<0>(), unit.zero<1>(), unit.zero<2>(), unit.zero<3>();
    unit.zero<4>(), unit.zero<5>(), unit.zero<6>(), unit.zero<7>();
    for (int i = 0; i < iterations; ++i) {
      unit.add_bf16<0, 4, 6>();
      unit.add_bf16<1, 4, 7>();
      unit.add_bf16<2, 5, 6>();
      unit.add_bf16<3, 5, 7>();
    }
  }
#endif

  std::size_t threads_;
  double least_ = never;
};

}  // namespace bench
