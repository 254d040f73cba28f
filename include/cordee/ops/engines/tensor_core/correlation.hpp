// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of an implicit GEMM (implicit_gemm.hpp), whose A is never written to memory:
//
//   C[m, f] = sum over k of A[m, k] w[f, k]        m a pixel, f a filter, k a tap and a channel
//
// A thread copies the same 16-byte column of every row of a K step, so it computes the tap and the
// channel once for all rows. Padding pixels and positions beyond K are copied as zeros.
#pragma once

#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/engines/tensor_core/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Loads the K steps of a block's tile. A stage is Tile::rows rows of A (pixels), then
/// Tile::columns rows of B (filters), `pitch` bytes apart.
template <class N, class Tile, class Prologue>
class correlation_loader {
  using weight = typename mma_type<N>::weight;
  static constexpr int numbers = numbers_per_copy<N>, copies_per_row = Tile::step_bytes / 16;
  static constexpr int rows_per_pass = Tile::threads / copies_per_row;
  static constexpr int pitch = Tile::step_bytes + 16;
  static constexpr int a_passes = Tile::rows / rows_per_pass,
                       b_passes = Tile::columns / rows_per_pass;

 public:
  static constexpr int stage_bytes = (Tile::rows + Tile::columns) * pitch;

  CORDEE_DEVICE correlation_loader(const implicit_gemm& g, const N* in, const weight* w,
                                   const Prologue& prologue, int first_pixel, int first_filter,
                                   int thread)
      : g_(g),
        in_(in),
        w_(w),
        prologue_(prologue),
        column_(thread % copies_per_row),
        row_(thread / copies_per_row) {
    k_.advance(g, column_ * numbers);
    transform_k_ = k_;
    for (int i = 0; i < a_passes; ++i) {
      const int pixel = first_pixel + row_ + i * rows_per_pass;
      const bool valid = static_cast<std::size_t>(pixel) < g.pixels();
      const implicit_gemm::window_origin origin = g.origin_of(valid ? pixel : 0);
      sample_[i] = in + std::ptrdiff_t{origin.sample} * g.down.in * g.across.in * g.channels;
      top_[i] = valid ? origin.top : outside;
      left_[i] = origin.left;
    }
    filter_ = first_filter + row_;
  }

  template <class Block>
  CORDEE_DEVICE void fetch(Block& b, std::byte* stage) {
    std::byte* to = stage + row_ * pitch + column_ * 16;
    for (int i = 0; i < a_passes; ++i, to += rows_per_pass * pitch) {
      const bool valid = is_inside(i, k_);
      prologue_.copy(b, to, valid ? input_pixel(i, k_) : in_, valid);
    }
    const int tap = (g_.down.first_tap + k_.u * g_.down.tap_step) * g_.window +
                    g_.across.first_tap + k_.v * g_.across.tap_step;
    for (int i = 0; i < b_passes; ++i, to += rows_per_pass * pitch) {
      const int filter = filter_ + i * rows_per_pass;
      const bool valid = k_.u < g_.down.taps && filter < g_.filters;
      const std::ptrdiff_t row = std::ptrdiff_t{filter} * g_.window * g_.window + tap;
      b.copy_async(to, valid ? w_ + row * g_.channels + k_.channel : w_, valid);
    }
    k_.advance(g_, copies_per_row * numbers);
  }

  CORDEE_DEVICE void transform(std::byte* stage) {
    if constexpr (Prologue::has_transform) {
      std::byte* to = stage + row_ * pitch + column_ * 16;
      for (int i = 0; i < a_passes; ++i, to += rows_per_pass * pitch)
        if (is_inside(i, transform_k_)) prologue_.transform(transform_k_.channel, to);
      transform_k_.advance(g_, copies_per_row * numbers);
    }
  }

  template <class Block>
  CORDEE_DEVICE void load_a(Block& b, device::fragment& f, const std::byte* stage, int row,
                            int k) const {
    b.ldmatrix(f, stage + row * pitch + k * device::fragment::row_bytes, pitch);
  }
  template <class Block>
  CORDEE_DEVICE void load_b(Block& b, device::fragment& f, const std::byte* stage, int column,
                            int k) const {
    b.ldmatrix(f, stage + (Tile::rows + column) * pitch + k * device::fragment::row_bytes, pitch);
  }

 private:
  static constexpr int outside = -(1 << 24);  // a row that no tap reads

  [[nodiscard]] CORDEE_DEVICE bool is_inside(int i, const k_position& k) const {
    const int h = top_[i] + k.u * g_.down.direction, l = left_[i] + k.v * g_.across.direction;
    return k.u < g_.down.taps && h >= 0 && h < g_.down.in && l >= 0 && l < g_.across.in;
  }
  [[nodiscard]] CORDEE_DEVICE const N* input_pixel(int i, const k_position& k) const {
    const int h = top_[i] + k.u * g_.down.direction, l = left_[i] + k.v * g_.across.direction;
    return sample_[i] + (h * g_.across.in + l) * g_.channels + k.channel;
  }

  const implicit_gemm& g_;
  const N* in_;
  const weight* w_;
  const Prologue& prologue_;
  int column_, row_, filter_;
  k_position k_, transform_k_;
  const N* sample_[a_passes];
  int top_[a_passes], left_[a_passes];
};

/// A block computes 128 pixels of some filters; adjacent blocks read the same pixels.
template <class N, class Tile, class Prologue, class Epilogue>
struct correlation_kernel {
  using mma = typename mma_type<N>::mma;
  using accumulator = typename mma::accumulator;
  using loader = correlation_loader<N, Tile, Prologue>;
  static constexpr int threads = Tile::threads;

  implicit_gemm g;
  const N* in;                            // (samples, g.down.in, g.across.in, channels)
  const typename mma_type<N>::weight* w;  // (filters, window, window, channels)
  Prologue prologue;
  Epilogue epilogue;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return std::max(std::size_t{Tile::stages} * loader::stage_bytes, Tile::accumulator_bytes);
  }
  [[nodiscard]] std::size_t blocks() const {
    return device::blocks_for(g.pixels(), Tile::rows) *
           device::blocks_for(static_cast<std::size_t>(g.filters), Tile::columns);
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const auto across = (g.filters + Tile::columns - 1) / Tile::columns;
    const int block = static_cast<int>(b.index());
    const int first_pixel = block / across * Tile::rows,
              first_filter = block % across * Tile::columns;
    loader stages(g, in, w, prologue, first_pixel, first_filter, b.thread());
    warp_tile<Tile, mma> warp(b.thread());
    constexpr int step = Tile::step_bytes / static_cast<int>(sizeof(N));
    warp.run_k_loop(b, (g.depth() + step - 1) / step, stages, memory);

    // Through shared memory, so that adjacent threads store adjacent numbers.
    accumulator* const sums = reinterpret_cast<accumulator*>(memory);
    warp.for_each_accumulator([&](int row, int column, accumulator x) {
      sums[row * Tile::accumulator_pitch + column] = x;
    });
    b.sync();
    constexpr int vectors = Tile::columns / Epilogue::width;
    const int column = b.thread() % vectors * Epilogue::width, filter = first_filter + column;
    typename Epilogue::thread_state state{};
    for (int row = b.thread() / vectors; row < Tile::rows; row += threads / vectors) {
      const int pixel = first_pixel + row;
      if (static_cast<std::size_t>(pixel) < g.pixels() && filter < g.filters)
        epilogue.store(g.output_offset(pixel) + static_cast<std::size_t>(filter), filter,
                       sums + row * Tile::accumulator_pitch + column, state);
    }
    epilogue.template finish<Tile>(b, state, sums, block / across, filter);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
