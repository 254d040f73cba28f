// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A 1 x 1 convolution of stride 1 by as many blocks as are resident, each of which computes one
// tile after another: the copies of the next tile's first K steps run beside the epilogue of this
// one.
//
//   stage 0 | stage 1 | stage 2 | stage 3, or half of the sums
//
// The first three stages are fetched ahead, so an epilogue has the memory of the fourth: its sums
// are put down 64 rows at a time. A block takes no more than leaves the multiprocessor as many of
// them as correlation_kernel does, of 228 KiB, 1 KiB of each block being the system's:
//
//   columns   shared memory, bytes     registers at most   blocks
//   32         40,960                    96                 5
//   64         55,296                   128                 4
//   128        83,968                   128                 2
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <cordee/ops/engines/tensor_core/correlation.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Requires g.reads_in_order(), and no more blocks than tiles(). The bits are correlation_kernel's.
template <class N, class Tile, class Prologue, class Epilogue>
struct persistent_kernel {
  using part = correlation_kernel<N, Tile, Prologue, Epilogue, true>;
  using accumulator = typename part::accumulator;
  using warp = warp_tile<Tile, typename part::mma>;
  using loader = typename part::loader;
  using layout = typename part::layout;
  static constexpr int threads = part::threads,
                       resident_blocks = Tile::columns == 32 ? 5 : 256 / Tile::columns,
                       rows_at_a_time = Tile::rows / 2;

  part tile;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    constexpr std::size_t sums = layout::bytes / Tile::rows * rows_at_a_time;
    return warp::prefetched * loader::stage_bytes +
           std::max(sums, std::size_t{loader::stage_bytes});
  }
  [[nodiscard]] std::size_t tiles() const { return tile.blocks(); }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const implicit_gemm& g = tile.g;
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const int tiles =
        (static_cast<int>(g.pixels()) + Tile::rows - 1) / Tile::rows * tile.by_tiles_across.divisor;
    const int steps = tile.k_steps();
    int index = static_cast<int>(b.index());
    output_tile at = place_of(index);
    loader stages(g, tile.in, tile.w, tile.prologue, tile.step, tile.byte_pairs,
                  at.index * Tile::rows, at.first_filter, warp(b.thread()), b.thread());
    warp::prefetch_stages(b, steps, stages, memory);
    for (;;) {
      warp products(b.thread());
      products.run_main_loop(b, steps, stages, memory);
      const output_tile done = at;
      index += static_cast<int>(b.blocks());
      const bool ends = index >= tiles;
      if (!ends) {
        at = place_of(index);
        stages.begin_in_order(g, tile.in, tile.w, at.index * Tile::rows, at.first_filter,
                              b.thread());
        warp::prefetch_stages(b, steps, stages, memory);
      }
      // The K loop of the next tile has a barrier before it fetches to the fourth stage.
      store(b, products, memory + warp::prefetched * loader::stage_bytes, done);
      if (ends) return;
    }
  }

 private:
  [[nodiscard]] CORDEE_DEVICE output_tile place_of(int index) const {
    const int row = tile.by_tiles_across.quotient(index), pixel = row * Tile::rows;
    return {row, std::min(static_cast<int>(tile.g.pixels()) - pixel, int{Tile::rows}),
            (index - row * tile.by_tiles_across.divisor) * Tile::columns};
  }
  template <class Block>
  CORDEE_DEVICE void store(Block& b, const warp& products, std::byte* memory,
                           const output_tile& at) const {
    accumulator* const sums = reinterpret_cast<accumulator*>(memory);  // (rows, layout::pitch)
    const int column = layout::column_of(b.thread()), filter = at.first_filter + column;
    const int rows = filter < tile.g.filters ? at.rows : 0;
    for (int from = 0; from < Tile::rows; from += rows_at_a_time) {
      if (from != 0) b.sync();  // the sums before these are read
      if (products.row / rows_at_a_time * rows_at_a_time == from)
        part::put_sums(products, sums, from);
      b.sync();
      tile.for_each_vector({sums, at.index * Tile::rows + from, column, filter},
                           layout::row_of(b.thread()), std::min(rows - from, int{rows_at_a_time}),
                           [&](std::size_t offset, const auto& vector) {
                             tile.epilogue.store(offset, filter, vector);
                           });
    }
  }
};

/// As launch_correlation; `most_blocks(kernel)` is how many blocks of the kernel are resident.
template <class N, class Prologue, class Epilogue, GpuStream S, class Most>
void launch_persistent(const implicit_gemm& g, const N* in, const typename mma_type<N>::weight* w,
                       const Prologue& prologue, const Epilogue& epilogue, S s,
                       const Most& most_blocks) {
  expect_supported(g);
  expects(g.reads_in_order(), "tensor_core: persistent blocks are for 1 x 1 windows of stride 1");
  with_tensor_core_tile(g.filters, [&](auto tile) {
    const persistent_kernel<N, decltype(tile), Prologue, Epilogue> kernel{
        {g, in, w, prologue, epilogue}};
    s.launch_kernel(std::min(kernel.tiles(), most_blocks(kernel)), kernel);
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
