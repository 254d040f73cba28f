// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct`: pixels of an output row x blocks of V filters, all in registers.
//
//   correlate:  y[b, t] += sum over taps and their channels c of  x[t, c] w[b, c]
//
// A register holds V output channels of one pixel. A tile of T pixels x B blocks costs T + B loads
// for T B products, so two blocks are faster than one wherever there are two. There is one function
// for each shape of tile: no window and no layer instantiates another.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// AVX-512 and 64-bit Arm have 32 registers, which hold a tile and its weights; other ISAs have 16.
template <class Real, int V>
inline constexpr bool many_registers =
    sizeof(Real) * V == 64 || (register_count == 32 && sizeof(Real) * V == register_bytes);

/// Accumulators of a tile, as many as leave registers for the operands. Without embedded broadcasts
/// an operand takes a register: of 32, the last beside 28 sums and three weights. Without FMA the
/// product takes another.
template <class Real, int V>
inline constexpr int tile_registers = many_registers<Real, V>  ? 28
                                      : sizeof(Real) * V == 32 ? 12
                                                               : 8;

/// Whether a product takes one number of a register: NEON loads V channels of a pixel at once.
template <class Real, int V>
inline constexpr bool multiplies_by_lanes = many_registers<Real, V> && sizeof(Real) * V == 16;

/// Blocks of filters in the tile for a single remaining block. With 16 registers the tile still has
/// two, and computes the single block twice.
template <class Real, int V>
inline constexpr int min_tile_blocks = many_registers<Real, V> ? 1 : 2;

/// Keeps loaded values in their registers: the compiler would otherwise load them again for each
/// product.
[[gnu::always_inline]] inline void compiler_barrier() { asm volatile("" ::: "memory"); }

/// A position of the window, or a row of positions whose channels are adjacent: the offsets of its
/// input and of its weights, in numbers, and how many channels follow there.
struct tap {
  std::ptrdiff_t x = 0, w = 0;
  int channels = 0;
};

/// Tap r (or s) of output row (or column) i T + b reads input row i t + offset, where t and T are
/// the steps in the input and in the output.
struct tap_offset {
  int offset, tap;
};
using tap_row = std::vector<tap_offset>;  // the taps of one remainder b
/// A tap_row for each remainder b: one forwards, `stride` of them backward.
inline std::vector<tap_row> tap_rows_of(const convolution_problem& p, bool backward) {
  std::vector<tap_row> rows(static_cast<std::size_t>(backward ? p.stride : 1));
  for (int r = 0; r < p.window; ++r) {
    if (!backward) rows[0].push_back({r - p.padding, r});
    for (int b = 0; b < p.stride && backward; ++b)
      if ((b + p.padding - r) % p.stride == 0)
        rows[static_cast<std::size_t>(b)].push_back({(b + p.padding - r) / p.stride, r});
  }
  return rows;
}

/// The memory of a tile's rows, one below the other. Pitches count numbers.
template <class Real>
struct row_tile {
  int rows = 1, pixels = 0;  // of y
  int tiles = 1;             // side by side in a row
  int columns = 0;           // of the image x
  const Real* x = nullptr;   // pixel 0
  std::ptrdiff_t x_step = 0, x_row = 0;
  const Real* w = nullptr;     // block 0
  std::ptrdiff_t w_block = 0;  // from block to block
  std::ptrdiff_t w_span = 0;   // from a tap's weights to those of the tap one pixel on
  Real* y = nullptr;           // pixel 0, block 0
  std::ptrdiff_t y_block = 0, y_step = 0, y_row = 0;
  bool add = false;                  // to y instead of overwriting it
  const Real* edge = nullptr;        // V zeros, read for pixels outside the image
  bool left = false, right = false;  // the tile's first or last pixel of x lies outside
};

template <class Real, int V, int Blocks, int Pixels>
using tile_sums = vec<Real, V>[std::size_t{Blocks}][std::size_t{Pixels}];

/// y's blocks are `block` numbers apart, its pixels `step`.
template <class Real, int V, int Blocks, int Pixels>
[[gnu::always_inline]] inline void load_sums(tile_sums<Real, V, Blocks, Pixels>& sum, bool add,
                                             const Real* y, std::ptrdiff_t block,
                                             std::ptrdiff_t step) {
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t)
      sum[b][t] = add ? load<Real, V>(y + b * block + t * step) : vec<Real, V>{};
}
template <class Real, int V, int Blocks, int Pixels>
[[gnu::always_inline]] inline void store_sums(const tile_sums<Real, V, Blocks, Pixels>& sum,
                                              Real* y, std::ptrdiff_t block, std::ptrdiff_t step) {
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t) store<Real, V>(y + b * block + t * step, sum[b][t]);
}

/// Any window, one tap after another. Prefetches the next row of y, a cache line with each channel,
/// and the next tile's x: its blocks lie too far apart, and each is read too briefly, for the
/// hardware's prefetcher.
template <class Real, int V, int Blocks, int Pixels>
[[gnu::noinline]] void correlate(const row_tile<Real>& at, const tap* first, const tap* last) {
  const std::ptrdiff_t step = at.x_step;
  tile_sums<Real, V, Blocks, Pixels> sum;
  load_sums<Real, V, Blocks, Pixels>(sum, at.add, at.y, at.y_block, at.y_step);
  int block = 0;  // of y, whose next row is prefetched with the first taps
  for (; first != last; ++first) {
    const Real* x = at.x + first->x;
    const Real* w = at.w + first->w;
    const Real* next = block < Blocks ? at.y + at.y_row + block * at.y_block : x + Pixels * step;
    const Real* const end = x + first->channels;
    if constexpr (multiplies_by_lanes<Real, V>)
      for (; end - x >= V; x += V, w += V * V, next += V * at.y_step) {
        __builtin_prefetch(next);
        vec<Real, V> weight[std::size_t{Blocks}][std::size_t{V}];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
          for (int c = 0; c < V; ++c) weight[b][c] = load<Real, V>(w + b * at.w_block + c * V);
#pragma GCC unroll 32
        for (int t = 0; t < Pixels; ++t) {
          const vec<Real, V> channels = load<Real, V>(x + t * step);
#pragma GCC unroll 32
          for (int c = 0; c < V; ++c)
#pragma GCC unroll 32
            for (int b = 0; b < Blocks; ++b) sum[b][t] += channels[c] * weight[b][c];
        }
      }
    for (; x != end; ++x, w += V, next += at.y_step) {
      __builtin_prefetch(next);
      vec<Real, V> weight[std::size_t{Blocks}];
#pragma GCC unroll 32
      for (int b = 0; b < Blocks; ++b) weight[b] = load<Real, V>(w + b * at.w_block);
#pragma GCC unroll 32
      for (int t = 0; t < Pixels; ++t)
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b) sum[b][t] += x[t * step] * weight[b];
    }
    ++block;
  }
  store_sums<Real, V, Blocks, Pixels>(sum, at.y, at.y_block, at.y_step);
}

/// The lengths of a tile that are compiled, longest first. All lengths would triple the compile
/// time: these divide rows of 7, 8, 14, 16, 28 pixels and their multiples; short ones are for
/// remainders. On Arm the addresses of more pixels do not fit its registers.
template <int... L>
using lengths = std::integer_sequence<int, L...>;
template <class Real, int V, int Blocks>  // of filters
using tile_lengths = std::conditional_t<
    Blocks == 1,
    std::conditional_t<many_registers<Real, V> && !multiplies_by_lanes<Real, V>,
                       lengths<16, 14, 4, 1>, lengths<12, 8, 4, 1>>,
    std::conditional_t<
        sizeof(Real) * V == 64, lengths<14, 8, 7, 1>,
        std::conditional_t<many_registers<Real, V>, lengths<8, 7, 4, 1>, lengths<6, 4, 3, 1>>>>;

/// Cuts `length` into tiles of lengths in L, at most Most: as equal as can be, so that none is too
/// short to hide latency; a remainder is shared by the last two. Where no equal length is compiled,
/// but the remainder of the widest is, and not short, it is the last: 49 is 14, 14, 14 and 7. Calls
/// call.template operator()<Length>(first, n) for n adjacent tiles.
template <int Most, int... L, class Call>
void for_tiles(lengths<L...>, int length, const Call& call) {
  constexpr int widest = std::max({L <= Most ? L : 1 ...});
  int first = 0;
  const auto fits = [&]<int Length>(int wanted) {
    if constexpr (Length <= widest) {
      if (Length > wanted) return false;
      const int left = length - first, whole = left / Length;
      const int n = Length != wanted ? 1 : left % Length == 0 ? whole : std::max(1, whole - 1);
      call.template operator()<Length>(first, n);
      first += n * Length;
      return true;
    } else {
      return false;
    }
  };
  while (first < length) {
    const int left = length - first, tiles = (left + widest - 1) / widest;
    const int wanted = (left + tiles - 1) / tiles, rest = left % widest;
    const bool equal = ((wanted == L) || ...), last = ((rest == L) || ...) && 2 * rest >= widest;
    if (!equal && last) {
      call.template operator()<widest>(first, left / widest);
      first = length - rest;
      continue;
    }
    (void)(fits.template operator()<L>(wanted) || ...);
  }
}

/// All pixels of the rows, row after row: most windows that get here are 1x1, whose rows share no
/// input.
template <class Real, int V, int Blocks>
void correlate_rows(row_tile<Real> at, const tap* first, const tap* last) {
  if (at.x_row == at.pixels * at.x_step && at.y_row == at.pixels * at.y_step)  // one long row
    at.pixels *= std::exchange(at.rows, 1);
  const row_tile<Real> rows = at;
  for (int row = 0; row < rows.rows; ++row)
    for_tiles<tile_registers<Real, V> / Blocks>(
        tile_lengths<Real, V, Blocks>{}, rows.pixels, [&]<int Pixels>(int done, int tiles) {
          at.x = rows.x + row * rows.x_row + done * rows.x_step;
          at.y = rows.y + row * rows.y_row + done * rows.y_step;
          for (; tiles > 0; --tiles, at.x += Pixels * at.x_step, at.y += Pixels * at.y_step)
            correlate<Real, V, Blocks, Pixels>(at, first, last);
        });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
