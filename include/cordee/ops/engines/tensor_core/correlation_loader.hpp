// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a block of an implicit GEMM (implicit_gemm.hpp) copies to shared memory. A thread copies the
// same 16-byte column of every row of a K step, so it walks through K once for all rows, and adds
// the same distance to the address of each. A mask of two bit sets, found once, has a pixel's taps
// inside the image. Padding pixels and positions beyond K are copied as zeros.
#pragma once

#include <algorithm>
#include <cstddef>

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

}  // namespace cordee::inline CORDEE_ABI::detail::ops
