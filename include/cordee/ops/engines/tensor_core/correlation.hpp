// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of an implicit GEMM (implicit_gemm.hpp), whose A is never written to memory:
//
//   C[m, f] = sum over k of A[m, k] w[f, k]        m a pixel, f a filter, k a tap and a channel
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <cordee/ops/engines/tensor_core/correlation_loader.hpp>
#include <cordee/ops/engines/tensor_core/epilogue.hpp>
#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/engines/tensor_core/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// A block computes 128 pixels of some filters; adjacent blocks read the same pixels. With OneTap,
/// requires g.has_one_tap(), and that no padding is read other than zeros; unless Strided, that
/// every pixel of the output is computed.
template <class N, class Tile, class Prologue, class Epilogue, bool OneTap = false,
          bool Strided = false>
struct correlation_kernel {
  using mma = typename mma_type<N>::mma;
  using accumulator = typename mma::accumulator;
  using loader = correlation_loader<N, Tile, Prologue, OneTap>;
  using layout = accumulator_layout<Tile, Epilogue::width>;
  static constexpr int threads = Tile::threads;

  implicit_gemm g;
  const N* in;                            // (samples, g.down.in, g.across.in, channels)
  const typename mma_type<N>::weight* w;  // (filters, window, window, channels)
  Prologue prologue;
  Epilogue epilogue;
  fast_divisor by_tiles_across = fast_divisor((g.filters + Tile::columns - 1) / Tile::columns);
  int step = Tile::step_bytes / static_cast<int>(sizeof(N));  // numbers of a K step
  fast_divisor by_step = fast_divisor(step);
  int byte_pairs = Tile::step_bytes / 2;  // of a K step; a parameter, as nvcc would add a constant

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return std::max(std::size_t{Tile::stages} * loader::stage_bytes, layout::bytes);
  }
  [[nodiscard]] std::size_t blocks() const {
    return device::blocks_for(g.pixels(), Tile::rows) *
           device::blocks_for(static_cast<std::size_t>(g.filters), Tile::columns);
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    compute_tile(b, static_cast<int>(b.index()));
  }
  /// What block `block` of blocks() does.
  template <class Block>
  CORDEE_DEVICE void compute_tile(Block& b, int block) const {
    // (stages, A and B), then the accumulators
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const int tile = by_tiles_across.quotient(block);
    const int first_pixel = tile * Tile::rows,
              first_filter = (block - tile * by_tiles_across.divisor) * Tile::columns;
    warp_tile<Tile, mma> warp(b.thread());
    loader stages(g, in, w, prologue, step, byte_pairs, first_pixel, first_filter, warp,
                  b.thread());
    warp.run_k_loop(b, k_steps(), stages, memory);

    accumulator* const sums = reinterpret_cast<accumulator*>(memory);  // (rows, layout::pitch)
    put_sums(warp, sums, 0);
    b.sync();
    const int column = layout::column_of(b.thread()), filter = first_filter + column;
    const int rows = std::min(static_cast<int>(g.pixels()) - first_pixel, int{Tile::rows});
    const int last = filter < g.filters ? rows : 0;
    const output_column at{sums, first_pixel, column, filter};
    const auto for_each_vector = [&](const auto& f) {
      this->for_each_vector(at, layout::row_of(b.thread()), last, f);
    };
    if constexpr (requires { typename Epilogue::thread_state; })
      if (epilogue.has_moments()) {
        typename Epilogue::thread_state state;
        if (last > 0)
          with_vector(at, 0, [&](std::size_t offset, const auto& vector) {
            epilogue.begin(offset, filter, vector, state);
          });
        for_each_vector([&](std::size_t offset, const auto& vector) {
          epilogue.store(offset, filter, vector, state);
        });
        return epilogue.template finish<Tile>(b, state, memory,
                                              output_tile{tile, rows, first_filter});
      }
    if constexpr (requires { epilogue.constants_of(filter); }) {
      if (last == 0) return;
      const auto constants = epilogue.constants_of(filter);
      for_each_vector([&](std::size_t offset, const auto& vector) {
        epilogue.store(offset, constants, vector);
      });
    } else {
      for_each_vector(
          [&](std::size_t offset, const auto& vector) { epilogue.store(offset, filter, vector); });
    }
  }

  /// Where a thread's numbers of an output tile are, those of a row side by side.
  struct output_column {
    const accumulator* sums;  // (rows, layout::pitch), of all threads
    int first_pixel;          // of row 0
    int column, filter;       // the first number's in the tile, and in the output
  };
  /// Puts a warp's sums into shared memory, whose row 0 is `first_row` of the tile, so that
  /// adjacent threads store adjacent numbers. The 16 lanes that put down 8 bytes together use each
  /// bank once; 32 lanes of 4 bytes would use half of them twice.
  CORDEE_DEVICE static void put_sums(const warp_tile<Tile, mma>& warp, accumulator* sums,
                                     int first_row) {
    accumulator* const first =
        sums + layout::offset(warp.first_row() - first_row, warp.first_column());
    warp.for_each_pair([&](int down, int across, const accumulator(&pair)[2]) {
      store_unit(pair, first + layout::distance(down, across));
    });
  }
  /// f(offset in the output, vector) of one row.
  template <class F>
  CORDEE_DEVICE void with_vector(const output_column& at, int row, const F& f) const {
    accumulator vector[Epilogue::width];
    layout::load(at.sums, row, at.column, vector);
    f(offset_of(at.first_pixel + row) + static_cast<std::size_t>(at.filter), vector);
  }
  /// The same of every row that the thread stores, from its first one on.
  template <class F>
  CORDEE_DEVICE void for_each_vector(const output_column& at, int first, int end,
                                     const F& f) const {
    for (int row = first; row < end; row += layout::rows_per_pass) with_vector(at, row, f);
  }

  /// ptxas divides integers by a float's reciprocal, so a kernel of integers alone multiplies. (The
  /// main loops of others, strided dgrad's most, would have more instructions, of other registers.)
  [[nodiscard]] CORDEE_DEVICE int k_steps() const {
    const int numbers = g.depth() + step - 1;
    if constexpr (requires { requires Epilogue::integers_only; })
      return by_step.quotient(numbers);
    else
      return numbers / step;
  }

 private:
  /// Offset of a pixel's first channel in the output.
  [[nodiscard]] CORDEE_DEVICE std::size_t offset_of(int pixel) const {
    if constexpr (Strided) return g.output_offset(pixel);
    return static_cast<std::size_t>(pixel) * static_cast<std::size_t>(g.filters);
  }
};

/// The merge of the moments of an output, of which a tile's pixels are a chunk.
inline chunk_merge moments_chunks(const implicit_gemm& g) {
  const auto filters = static_cast<std::size_t>(g.filters);
  std::size_t chunks = 0, across = 0;
  with_tensor_core_tile(g.filters, [&](auto tile) {
    chunks = device::blocks_for(g.pixels(), tile.rows);
    across = device::blocks_for(filters, tile.columns);
  });
  return {1, chunks, tensor_core_tile<32, 4>::rows, across, filters};
}
/// Calls launch(epilogue) with one that stores and, unless null, computes the statistics.
template <class Store, class Real, class S, class Launch>
void with_moments(const implicit_gemm& g, const Store& store,
                  const batch_statistics<Real>& statistics, S s, const Launch& launch) {
  using epilogue = moments_epilogue<Store, Real>;
  if (statistics.saved == nullptr || g.pixels() == 0) return launch(epilogue{store, {}, 0});
  const chunk_merge chunks = moments_chunks(g);
  const device::stream_buffer<double, S> memory(s, moments_size(chunks));
  launch(epilogue{store, merged_moments(statistics, chunks, memory.data(), s), g.pixels()});
}

/// in (samples, g.down.in, g.across.in, channels), w (filters, window, window, channels).
template <class N, class Prologue, class Epilogue, GpuStream S>
void launch_correlation(const implicit_gemm& g, const N* in, const typename mma_type<N>::weight* w,
                        const Prologue& prologue, const Epilogue& epilogue, S s) {
  expect_supported(g);
  with_tensor_core_tile(g.filters, [&](auto tile) {
    const auto launch = [&](auto one_tap) {
      const correlation_kernel<N, decltype(tile), Prologue, Epilogue, decltype(one_tap)::value>
          kernel{g, in, w, prologue, epilogue};
      s.launch_kernel(kernel.blocks(), kernel);
    };
    if (g.has_one_tap() && (Prologue::pads_with_zeros || !g.reads_padding()))
      launch(std::true_type{});
    else
      launch(std::false_type{});
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
