// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of an implicit GEMM (implicit_gemm.hpp), whose A is never written to memory:
//
//   C[m, f] = sum over k of A[m, k] w[f, k]        m a pixel, f a filter, k a tap and a channel
//
// A thread copies the same 16-byte column of every row of a K step, so it walks through K once for
// all rows, and adds the same distance to the address of each. A mask of two bit sets, found once,
// has a pixel's taps inside the image. Padding pixels and positions beyond K are copied as zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <cordee/ops/engines/tensor_core/epilogue.hpp>
#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/engines/tensor_core/tap_walk.hpp>
#include <cordee/ops/engines/tensor_core/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Loads the K steps of a block's tile. A stage is Tile::rows rows of A (pixels), then
/// Tile::columns rows of B (filters).
template <class N, class Tile, class Prologue, bool OneTap>
class correlation_loader {
  using weight = typename mma_type<N>::weight;
  using rows = swizzled_rows<Tile::step_bytes>;
  using walk = tap_walk<OneTap>;
  static constexpr int numbers = numbers_per_copy<N>, copies_per_row = Tile::step_bytes / 16;
  static constexpr int rows_per_pass = Tile::threads / copies_per_row;
  static constexpr int a_passes = Tile::rows / rows_per_pass,
                       b_passes = Tile::columns / rows_per_pass;
  static_assert(rows_per_pass % 8 == 0);  // a thread's rows are swizzled alike

 public:
  static constexpr int stage_bytes = (Tile::rows + Tile::columns) * rows::pitch;

  template <class Mma>
  CORDEE_DEVICE correlation_loader(const implicit_gemm& g, const N* in, const weight* w,
                                   const Prologue& prologue, int step, int byte_pairs,
                                   int first_pixel, int first_filter,
                                   const warp_tile<Tile, Mma>& warp, int thread)
      : prologue_(prologue),
        step_(step),
        byte_pairs_(byte_pairs),
        k_(g),
        transform_k_(k_),
        to_(rows::offset(thread / copies_per_row, thread % copies_per_row)) {
    const typename walk::distance start = k_.advance(thread % copies_per_row * numbers);
    transform_k_ = k_;
    const int row = thread / copies_per_row, pixels = static_cast<int>(g.pixels());
    for (int i = 0; i < a_passes; ++i) {
      const int pixel = first_pixel + row + i * rows_per_pass;
      const implicit_gemm::window_origin at = g.origin_of(pixel < pixels ? pixel : 0);
      const std::ptrdiff_t sample_row = std::ptrdiff_t{at.sample} * g.down.in + at.top;
      a_[i] = in + (sample_row * g.across.in + at.left) * g.channels + start.a;
      a_mask_[i] = pixel < pixels ? inside(g, at) : 0;
    }
    const int tap = g.down.first_tap * g.window + g.across.first_tap;
    const int filter = first_filter + row;
    b_ = w + (std::ptrdiff_t{filter} * g.window * g.window + tap) * g.channels + start.b;
    b_pass_ = rows_per_pass * g.window * g.window * g.channels;
    for (int i = 0; i < b_passes; ++i)
      b_mask_[i] = filter + i * rows_per_pass < g.filters
                       ? k_.mask_of(0, g.down.taps, 0, g.across.taps)
                       : typename walk::mask{};
    const device::tile_chunk a = device::rows_first(warp.lane), b = device::chunks_first(warp.lane);
    a_lane_ = rows::offset(warp.row + a.row, a.chunk);
    b_lane_ = Tile::rows * rows::pitch + rows::offset(warp.column + b.row, b.chunk);
  }

  /// Goes on to another tile of a GEMM that reads its pixels in order.
  CORDEE_DEVICE void begin_in_order(const implicit_gemm& g, const N* in, const weight* w,
                                    int first_pixel, int first_filter, int thread) {
    static_assert(!Prologue::has_transform);
    k_ = transform_k_;  // still at the first position
    const int row = thread / copies_per_row, channel = k_.channel();
    for (int i = 0; i < a_passes; ++i) {
      const int pixel = first_pixel + row + i * rows_per_pass;
      a_[i] = in + std::ptrdiff_t{pixel} * g.channels + channel;
      a_mask_[i] = pixel < static_cast<int>(g.pixels()) ? g.channels : 0;
    }
    b_ = w + std::ptrdiff_t{first_filter + row} * g.channels + channel;
    for (int i = 0; i < b_passes; ++i)
      b_mask_[i] = first_filter + row + i * rows_per_pass < g.filters ? g.channels : 0;
  }

  template <class Block>
  CORDEE_DEVICE void fetch(Block& b, std::byte* stage) {
    std::byte* to = stage + to_;
    for (int i = 0; i < a_passes; ++i, to += rows_per_pass * rows::pitch)
      copy_input(b, to, a_[i], k_.is_in(a_mask_[i]));
    for (int i = 0; i < b_passes; ++i, to += rows_per_pass * rows::pitch)
      b.copy_async(to, b_ + i * b_pass_, k_.is_in(b_mask_[i]));
    const typename walk::distance d = k_.advance(step());
    if constexpr (OneTap && sizeof(N) == 1) {
      // A product with 2 is added by one instruction, a number of bytes to either half by two.
      for (int i = 0; i < a_passes; ++i) a_[i] += std::ptrdiff_t{2} * byte_pairs_;
      b_ += std::ptrdiff_t{2} * byte_pairs_;
    } else {
      for (int i = 0; i < a_passes; ++i) a_[i] += d.a;
      b_ += d.b;
    }
  }

  CORDEE_DEVICE void transform(std::byte* stage) {
    if constexpr (Prologue::has_transform) {
      std::byte* to = stage + to_;
      for (int i = 0; i < a_passes; ++i, to += rows_per_pass * rows::pitch)
        if (transform_k_.is_in(a_mask_[i])) prologue_.transform(transform_k_.channel(), to);
      transform_k_.advance(step());
    }
  }

  template <class Block>
  CORDEE_DEVICE void load_a(Block& b, device::fragment& f, const std::byte* stage, int i,
                            int k) const {
    b.ldmatrix(f, fragment_row(stage, a_lane_, i, k));
  }
  template <class Block>
  CORDEE_DEVICE void load_b(Block& b, device::fragment& f, const std::byte* stage, int i,
                            int k) const {
    b.ldmatrix(f, fragment_row(stage, b_lane_, i, k));
  }

 private:
  /// With OneTap zeros where it is not valid: at padding of zeros, and beyond K any byte would do,
  /// as weights are zero there.
  template <class Block>
  CORDEE_DEVICE void copy_input(Block& b, std::byte* to, const N* from, bool valid) const {
    if constexpr (OneTap)
      b.copy_async(to, from, valid);
    else
      prologue_.copy(b, to, from, valid);
  }
  /// Numbers of a K step. Where the distance to it is a constant too, nvcc adds it to the halves of
  /// each pointer; one that it loads is added by an instruction.
  [[nodiscard]] CORDEE_DEVICE int step() const { return OneTap ? step_ : copies_per_row * numbers; }
  /// A fragment has whole patterns of rows, and two chunks: it swizzles as the first one does.
  CORDEE_DEVICE static const std::byte* fragment_row(const std::byte* stage, int lane, int i,
                                                     int k) {
    return stage + (lane ^ k * device::fragment::row_bytes) +
           i * device::fragment::rows * rows::pitch;
  }
  /// The taps at which a pixel's window is inside the image.
  [[nodiscard]] CORDEE_DEVICE typename walk::mask inside(
      const implicit_gemm& g, const implicit_gemm::window_origin& at) const {
    const auto begin = [](const gemm_axis& axis, int first) {
      return axis.direction > 0 ? -first : first - axis.in + 1;
    };
    const auto end = [](const gemm_axis& axis, int first) {
      return std::min(axis.taps, axis.direction > 0 ? axis.in - first : first + 1);
    };
    return k_.mask_of(begin(g.down, at.top), end(g.down, at.top), begin(g.across, at.left),
                      end(g.across, at.left));
  }

  const Prologue& prologue_;
  int step_, byte_pairs_;
  walk k_, transform_k_;
  int to_, a_lane_ = 0, b_lane_ = 0;   // offsets in a stage
  const N* a_[std::size_t{a_passes}];  // may point outside where the mask is 0
  const weight* b_;
  int b_pass_;
  typename walk::mask a_mask_[std::size_t{a_passes}], b_mask_[std::size_t{b_passes}];
};

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
  /// Of a pixel's first channel in the output.
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
