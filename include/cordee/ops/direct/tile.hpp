// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct`: pixels of an output row x blocks of V filters, all in registers.
//
//   correlate:  y[b, t] += sum over taps and their channels c of  x[t, c] w[b, c]
//
// A register holds V output channels of one pixel. A tile of T pixels x B blocks costs T + B loads
// for T B products, so two blocks beat one wherever there are two. One function per shape of tile:
// neither windows nor layers instantiate anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// AVX-512 has twice the registers of its forerunners, which hold a tile or its weights, not both.
template <class Real, int V>
inline constexpr bool many_registers = sizeof(Real) * V == 64;

/// Accumulators that leave room for the operands. Without embedded broadcasts an operand takes a
/// register, and without FMA the product takes another.
template <class Real, int V>
inline constexpr int tile_registers = many_registers<Real, V>  ? 28
                                      : sizeof(Real) * V == 32 ? 12
                                                               : 8;

/// Blocks of filters to a tile that has but one to do: where registers are narrow they fill two,
/// and the lone one is done twice.
template <class Real, int V>
inline constexpr int lone_blocks = many_registers<Real, V> ? 1 : 2;

/// What was loaded stays in its register: the compiler would rather load it again with each
/// product.
[[gnu::always_inline]] inline void hold() { asm volatile("" ::: "memory"); }

/// A position of the window, or a row of them: where input and weights begin, and how many channels
/// follow one another there.
struct tap {
  std::ptrdiff_t x = 0, w = 0;
  int channels = 0;
};

/// Tap r (or s) of output row (column) i T + b meets input row i t + offset, T and t the steps.
struct meeting {
  int offset, tap;
};
using line = std::vector<meeting>;  // the taps of one remainder b
inline std::vector<line> lines_of(const convolution_problem& p, bool back) {
  std::vector<line> lines(static_cast<std::size_t>(back ? p.stride : 1));
  for (int r = 0; r < p.window; ++r) {
    if (!back) lines[0].push_back({r - p.padding, r});
    for (int b = 0; b < p.stride && back; ++b)
      if ((b + p.padding - r) % p.stride == 0)
        lines[static_cast<std::size_t>(b)].push_back({(b + p.padding - r) / p.stride, r});
  }
  return lines;
}

/// Where the tiles of some rows lie, one below the other. Pitches count numbers.
template <class Real>
struct row_tile {
  int rows = 1, pixels = 0;  // of y
  int tiles = 1;             // side by side in a row
  int columns = 0;           // of the image x
  const Real* x = nullptr;   // of pixel 0
  std::ptrdiff_t x_step = 0, x_row = 0;
  const Real* w = nullptr;     // block 0
  std::ptrdiff_t w_block = 0;  // from block to block
  std::ptrdiff_t w_span = 0;   // from a tap's weights to those of the tap one pixel on
  Real* y = nullptr;           // pixel 0, block 0
  std::ptrdiff_t y_block = 0, y_step = 0, y_row = 0;
  bool add = false;                  // to what y holds
  const Real* edge = nullptr;        // V zeros, for pixels that the image lacks
  bool left = false, right = false;  // the tile's first and last pixel of x are such
};

template <class Real, int V, int Blocks, int Pixels>
using tile_sums = vec<Real, V>[Blocks][Pixels];

/// The sums' places in y lie `block` and `step` apart.
template <class Real, int V, int Blocks, int Pixels>
[[gnu::always_inline]] inline void read_sums(tile_sums<Real, V, Blocks, Pixels>& sum, bool add,
                                             const Real* y, std::ptrdiff_t block,
                                             std::ptrdiff_t step) {
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t)
      sum[b][t] = add ? load<Real, V>(y + b * block + t * step) : vec<Real, V>{};
}
template <class Real, int V, int Blocks, int Pixels>
[[gnu::always_inline]] inline void write_sums(const tile_sums<Real, V, Blocks, Pixels>& sum,
                                              Real* y, std::ptrdiff_t block, std::ptrdiff_t step) {
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t) store<Real, V>(y + b * block + t * step, sum[b][t]);
}

/// Any window, one tap after another. What the next row of y needs is fetched on the way, a line
/// with each channel; and what the next tile needs of x, whose blocks lie too far apart, and are
/// read for too short a time each, for the hardware to see where they go on.
template <class Real, int V, int Blocks, int Pixels>
[[gnu::noinline]] void correlate(const row_tile<Real>& at, const tap* first, const tap* last) {
  const std::ptrdiff_t step = at.x_step;
  tile_sums<Real, V, Blocks, Pixels> sum;
  read_sums<Real, V, Blocks, Pixels>(sum, at.add, at.y, at.y_block, at.y_step);
  int block = 0;  // of y, whose next row is fetched with the first taps
  for (; first != last; ++first) {
    const Real* x = at.x + first->x;
    const Real* w = at.w + first->w;
    const Real* next = block < Blocks ? at.y + at.y_row + block * at.y_block : x + Pixels * step;
    for (const Real* const end = x + first->channels; x != end; ++x, w += V, next += at.y_step) {
      __builtin_prefetch(next);
      vec<Real, V> weight[Blocks];
#pragma GCC unroll 32
      for (int b = 0; b < Blocks; ++b) weight[b] = load<Real, V>(w + b * at.w_block);
#pragma GCC unroll 32
      for (int t = 0; t < Pixels; ++t)
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b) sum[b][t] += x[t * step] * weight[b];
    }
    ++block;
  }
  write_sums<Real, V, Blocks, Pixels>(sum, at.y, at.y_block, at.y_step);
}

/// The lengths of a tile that are compiled, longest first. All lengths would cost three times the
/// compile time: these are what rows of 7, 8, 14, 16, 28 pixels and their multiples fill, and small
/// ones for what remains.
template <int... L>
using lengths = std::integer_sequence<int, L...>;
template <class Real, int V, int Blocks>  // of filters
using tile_lengths =
    std::conditional_t<many_registers<Real, V>,
                       std::conditional_t<Blocks == 1, lengths<16, 14, 4, 1>, lengths<14, 8, 7, 1>>,
                       std::conditional_t<Blocks == 1, lengths<12, 8, 4, 1>, lengths<6, 4, 3, 1>>>;

/// Covers `length` by tiles: as equal as can be, so that none is too short to hide latency, of the
/// largest length in L that fits; what the last of many leave is shared by two.
/// call.template operator()<Length>(first, n) does n of them.
template <int Most, int... L, class Call>
void cover(lengths<L...>, int length, const Call& call) {
  constexpr int widest = std::max({L <= Most ? L : 1 ...});
  int first = 0;
  const auto fits = [&]<int Length>(int wanted) {
    if constexpr (Length <= widest) {
      if (Length > wanted) return false;
      const int left = length - first, all = left / Length;
      const int n = Length != wanted ? 1 : left % Length == 0 ? all : std::max(1, all - 1);
      call.template operator()<Length>(first, n);
      first += n * Length;
      return true;
    } else {
      return false;
    }
  };
  while (first < length) {
    const int left = length - first, tiles = (left + widest - 1) / widest;
    const int wanted = (left + tiles - 1) / tiles;
    (void)(fits.template operator()<L>(wanted) || ...);
  }
}

/// All pixels of the rows, in order of memory: most windows here are single taps, whose rows share
/// nothing.
template <class Real, int V, int Blocks>
void correlate_rows(row_tile<Real> at, const tap* first, const tap* last) {
  if (at.x_row == at.pixels * at.x_step && at.y_row == at.pixels * at.y_step)  // one long row
    at.pixels *= std::exchange(at.rows, 1);
  const row_tile<Real> all = at;
  for (int row = 0; row < all.rows; ++row)
    cover<tile_registers<Real, V> / Blocks>(
        tile_lengths<Real, V, Blocks>{}, all.pixels, [&]<int Pixels>(int done, int tiles) {
          at.x = all.x + row * all.x_row + done * all.x_step;
          at.y = all.y + row * all.y_row + done * all.y_step;
          for (; tiles > 0; --tiles, at.x += Pixels * at.x_step, at.y += Pixels * at.y_step)
            correlate<Real, V, Blocks, Pixels>(at, first, last);
        });
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
