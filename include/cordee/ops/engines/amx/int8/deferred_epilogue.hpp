// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Makes y of the sums of one kernel (byte_tiles.hpp) while the next kernel's products run: tiles
// are multiplied by a unit of their own, and the vector units are idle meanwhile. The sums wait in
// memory until the kernel stores its own. Before that it runs all slices, of at most four pixels of
// a block of filters, between its steps. What takes longer than the products delays them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/int8/byte_region.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Consumes the sums of a kernel as soon as it ends.
template <class Consume>
struct immediate_epilogue {
  const Consume& consume;

  [[nodiscard]] static constexpr int slices() { return 0; }
  static void run_slices(int) {}
  static void finish() {}
  void add(std::size_t sample, const byte_sums_chunk& sums) { consume(sample, sums); }
};

/// As `run_fused` of engine `direct`: y_of(sample) and epilogue_of(sample, block of filters).
template <int V, class Y, class EpilogueOf>
class deferred_epilogue {
 public:
  /// `pixels` of y.
  deferred_epilogue(const Y& y_of, const EpilogueOf& epilogue_of, std::size_t pixels)
      : y_of_(y_of), epilogue_of_(epilogue_of), pixels_(pixels) {}

  /// So many slices are left.
  [[nodiscard]] int slices() const { return slices_; }

  /// The sums of one block of filters, at most 32 pixels, which stay in memory.
  void add(std::size_t sample, const byte_sums_chunk& sums) {
    runs_[static_cast<std::size_t>(count_++)] = {sample, sums};
    slices_ += static_cast<int>((sums.pixels + 3) / 4);
  }
  /// At most n. Out of line: a kernel's registers hold tiles' addresses, these the epilogue's.
  [[gnu::noinline]] void run_slices(int n) {
    for (n = std::min(n, slices_); n > 0;) {
      const run& r = runs_[static_cast<std::size_t>(first_)];
      const byte_sums_chunk& sums = r.sums;
      const auto f = static_cast<std::size_t>(sums.filter_block);
      auto* const y = y_of_(r.sample) + (f * pixels_ + sums.first) * V;
      const auto epilogue = epilogue_of_(r.sample, sums.filter_block);
      const auto block = epilogue.of_block(0, y);  // in registers for all slices of this run
      const int here = std::min(n, static_cast<int>((sums.pixels - pixel_ + 3) / 4));
      n -= here;
      slices_ -= here;
      const std::size_t end = std::min(pixel_ + 4 * static_cast<std::size_t>(here), sums.pixels);
      const std::int32_t* from = sums.sums;
      std::size_t pixel = pixel_;
      for (; pixel + 4 <= end; pixel += 4) {
        constexpr std::size_t to_line = 64 / sizeof *y;
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4 * V; k += to_line)
          epilogue.prefetch(y + (pixel + sums.next) * V + k);
        block.finish_four(pixel * V, from + pixel * V);
      }
      for (; pixel < end; ++pixel) block(pixel * V, load<std::int32_t, V>(from + pixel * V));
      pixel_ = pixel;
      if (pixel_ < sums.pixels) return;
      pixel_ = 0;
      if (++first_ == count_) first_ = count_ = 0;
    }
  }
  void finish() { run_slices(slices_); }

 private:
  struct run {
    std::size_t sample;
    byte_sums_chunk sums;
  };
  const Y& y_of_;
  const EpilogueOf& epilogue_of_;
  std::size_t pixels_;
  std::array<run, std::size_t{2} * 2 * tile_rows> runs_;
  int first_ = 0, count_ = 0;  // of runs_
  std::size_t pixel_ = 0;      // of the first run
  int slices_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
