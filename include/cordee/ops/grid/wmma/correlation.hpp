// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A sweep (wmma/sweep.hpp) as a product of matrices whose factors are never written:
//
//   C[m, f] = sum over k of A[m, k] w[f, k],  m a pixel, k a tap and a channel
//
// A thread brings the same 16 bytes of every step's lines, so it counts taps and channels once for
// all of them; what is outside of an image, and beyond the last term, arrives as zero.
#pragma once

#include <cordee/ops/grid/wmma/number.hpp>
#include <cordee/ops/grid/wmma/sweep.hpp>
#include <cordee/ops/grid/wmma/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// The factors of a block's tile: pixels' lines, then filters'.
template <class N, class Tile, class Before>
class correlation_source {
  using weight = typename wmma_number<N>::weight;
  static constexpr int size = wmma_copy<N>, copies = Tile::step_bytes / 16;  // of a line
  static constexpr int at_once = Tile::threads / copies;                     // lines
  static constexpr int pitch = Tile::step_bytes + 16;
  static constexpr int rows_each = Tile::rows / at_once, columns_each = Tile::columns / at_once;

 public:
  static constexpr int stage_bytes = (Tile::rows + Tile::columns) * pitch;

  CORDEE_DEVICE correlation_source(const sweep& at, const N* in, const weight* w,
                                   const Before& before, int first_pixel, int first_filter,
                                   int thread)
      : at_(at), in_(in), w_(w), before_(before), column_(thread % copies), line_(thread / copies) {
    term_.advance(at, column_ * size);
    settled_ = term_;
    for (int i = 0; i < rows_each; ++i) {
      const int pixel = first_pixel + line_ + i * at_once;
      const bool made = static_cast<std::size_t>(pixel) < at.pixels();
      const sweep::view seen = at.seen(made ? pixel : 0);
      sample_[i] = in + std::ptrdiff_t{seen.sample} * at.down.in * at.across.in * at.channels;
      top_[i] = made ? seen.top : nowhere;
      left_[i] = seen.left;
    }
    filter_ = first_filter + line_;
  }

  template <class Block>
  CORDEE_DEVICE void fetch(Block& b, std::byte* stage) {
    std::byte* to = stage + line_ * pitch + column_ * 16;
    for (int i = 0; i < rows_each; ++i, to += at_once * pitch) {
      const bool there = sees(i, term_);
      before_.copy(b, to, there ? pixel(i, term_) : in_, there);
    }
    const int tap = (at_.down.tap + term_.u * at_.down.next) * at_.window + at_.across.tap +
                    term_.v * at_.across.next;
    for (int i = 0; i < columns_each; ++i, to += at_once * pitch) {
      const int filter = filter_ + i * at_once;
      const bool there = term_.u < at_.down.taps && filter < at_.filters;
      const std::ptrdiff_t line = std::ptrdiff_t{filter} * at_.window * at_.window + tap;
      b.copy_async(to, there ? w_ + line * at_.channels + term_.channel : w_, there);
    }
    term_.advance(at_, copies * size);
  }

  CORDEE_DEVICE void settle(std::byte* stage) {
    if constexpr (Before::changes) {
      std::byte* to = stage + line_ * pitch + column_ * 16;
      for (int i = 0; i < rows_each; ++i, to += at_once * pitch)
        if (sees(i, settled_)) before_.change(settled_.channel, to);
      settled_.advance(at_, copies * size);
    }
  }

  template <class Block>
  CORDEE_DEVICE void rows(Block& b, fragment& f, const std::byte* stage, int line, int k) const {
    b.load(f, stage + line * pitch + k * fragment::bytes, pitch);
  }
  template <class Block>
  CORDEE_DEVICE void columns(Block& b, fragment& f, const std::byte* stage, int line, int k) const {
    b.load(f, stage + (Tile::rows + line) * pitch + k * fragment::bytes, pitch);
  }

 private:
  static constexpr int nowhere = -(1 << 24);

  [[nodiscard]] CORDEE_DEVICE bool sees(int i, const sweep_term& term) const {
    const int h = top_[i] + term.u * at_.down.way, l = left_[i] + term.v * at_.across.way;
    return term.u < at_.down.taps && h >= 0 && h < at_.down.in && l >= 0 && l < at_.across.in;
  }
  [[nodiscard]] CORDEE_DEVICE const N* pixel(int i, const sweep_term& term) const {
    const int h = top_[i] + term.u * at_.down.way, l = left_[i] + term.v * at_.across.way;
    return sample_[i] + (h * at_.across.in + l) * at_.channels + term.channel;
  }

  const sweep& at_;
  const N* in_;
  const weight* w_;
  const Before& before_;
  int column_, line_, filter_;
  sweep_term term_, settled_;
  const N* sample_[rows_each];
  int top_[rows_each], left_[rows_each];
};

/// A block makes 128 pixels of some filters; neighbours share their pixels.
template <class N, class Tile, class Before, class After>
struct correlation_body {
  using words = typename wmma_number<N>::words;
  using sum = typename words::sum;
  using source = correlation_source<N, Tile, Before>;
  static constexpr int threads = Tile::threads;

  sweep at;
  const N* in;
  const typename wmma_number<N>::weight* w;
  Before before;
  After after;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return std::max(std::size_t{Tile::stages} * source::stage_bytes, Tile::sums_bytes);
  }
  [[nodiscard]] std::size_t blocks() const {
    return blocks_for(at.pixels(), Tile::rows) *
           blocks_for(static_cast<std::size_t>(at.filters), Tile::columns);
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const auto across = (at.filters + Tile::columns - 1) / Tile::columns;
    const int block = static_cast<int>(b.index());
    const int first_pixel = block / across * Tile::rows,
              first_filter = block % across * Tile::columns;
    source from(at, in, w, before, first_pixel, first_filter, b.thread());
    warp_tile<Tile, words> mine(b.thread());
    constexpr int step = Tile::step_bytes / static_cast<int>(sizeof(N));
    mine.multiply(b, (at.terms() + step - 1) / step, from, memory);

    // Through shared memory, so that neighbours write neighbours.
    sum* const sums = reinterpret_cast<sum*>(memory);
    mine.each([&](int row, int column, sum x) { sums[row * Tile::sums_pitch + column] = x; });
    b.sync();
    constexpr int packs = Tile::columns / After::width;
    const int column = b.thread() % packs * After::width, filter = first_filter + column;
    typename After::kept kept{};
    for (int row = b.thread() / packs; row < Tile::rows; row += threads / packs) {
      const int pixel = first_pixel + row;
      if (static_cast<std::size_t>(pixel) < at.pixels() && filter < at.filters)
        after.put(at.place(pixel) + static_cast<std::size_t>(filter), filter,
                  sums + row * Tile::sums_pitch + column, kept);
    }
    after.template finish<Tile>(b, kept, sums, block / across, filter);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail
