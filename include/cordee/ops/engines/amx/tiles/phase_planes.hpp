// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies samples into the planes of a tile_correlation_plan, while tiles are multiplied that have
// their pixels already.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// `count` pixels of one sample in a row of the plane, whose samples lie together in groups of as
/// many pixels as the stride.
template <class N>
class plane_pixels {
 public:
  plane_pixels(const tile_correlation_plan& plan, N* first)
      : at_(first),
        size_(plan.pixel),
        step_(plan.columns.step),
        jump_((std::ptrdiff_t{plan.together} - 1) * plan.columns.step * plan.pixel) {}

  /// f(address) for the next `count` pixels.
  template <class F>
  [[gnu::always_inline]] void next(int count, const F& f) {
    if (step_ == 1 || jump_ == 0) {
      N* at = at_;
      const std::ptrdiff_t pitch = size_ + jump_;
      at_ += count * pitch;
#pragma GCC unroll 1
      for (; count > 0; --count, at += pitch) f(at);
      return;
    }
    for (; count > 0; --count) {
      f(at_);
      at_ += size_;
      if (++in_group_ == step_) in_group_ = 0, at_ += jump_;
    }
  }

 private:
  N* at_;
  int size_, step_, in_group_ = 0;
  std::ptrdiff_t jump_;
};

/// Fills the planes of `samples` samples, at most plan.together, which are `size` numbers apart:
/// row by row, each of all blocks, a few pixels at a time. Positions of samples that are missing
/// keep what the memory held.
template <class N>
class plane_filler {
 public:
  /// `x` and `planes` are read and written by the other functions.
  plane_filler(const tile_correlation_plan& plan, const N* x, int samples, std::size_t size,
               N* planes)
      : plan_(plan),
        x_(x),
        planes_(planes),
        samples_(samples),
        of_row_(samples * plan.in_blocks),
        end_(of_row_ * plan.plane_rows() * plan.planes()),
        sample_(static_cast<std::ptrdiff_t>(size)),
        to_(plan, planes) {
    std::fill_n(planes + plan.block_size() * plan.in_blocks, plan.tail(), N{});
    for (int i = 0; i <= ahead; i += 1 + plan.columns.inside) advance(ahead_at_);
    if (row_ < end_) start_row();
  }
  plane_filler(const plane_filler&) = delete;
  plane_filler& operator=(const plane_filler&) = delete;

  /// Pixels that are left, of all blocks, with those that are zero.
  [[nodiscard]] std::ptrdiff_t left() const {
    return std::ptrdiff_t{end_ - row_} * plan_.row_pixels;
  }
  /// Copies up to `pixels` and asks for those that follow. Returns whether any are left.
  bool copy(int pixels) {
    if (row_ == end_) return false;
    const int count = std::min(pixels, inside_);
    // Sizes that the compiler knows take a fraction of the time.
    if (plan_.pixel == tile_channels)
      copy(count, std::integral_constant<int, tile_channels>{},
           std::integral_constant<int, tile_channels>{});
    else if (plan_.in_block == 3)
      copy(count, std::integral_constant<int, 3>{}, std::integral_constant<int, 4>{});
    else if (plan_.pixel == tile_filters)
      copy(count, std::integral_constant<int, tile_filters>{},
           std::integral_constant<int, tile_filters>{});
    else
      copy(count, plan_.in_block, plan_.pixel);
    inside_ -= count;
    if (inside_ > 0) return true;
    zero(plan_.row_pixels - plan_.columns.left - plan_.columns.inside);
    advance(at_);
    advance(ahead_at_);
    if (++row_ == end_) return false;
    start_row();
    return true;
  }
  /// Completes all rows up to `u`.
  void reach(int u) {
    const int last = std::min(end_, (u + 1) * of_row_);
    while (row_ < last) copy(inside_);
  }
  void finish() {
    while (row_ < end_) copy(inside_);
  }

 private:
  /// 32 channels: one move, where registers have this size.
  using line
      [[gnu::vector_size(tile_channels * sizeof(N)), gnu::aligned(alignof(N)), gnu::may_alias]] =
          unsigned char;
  static constexpr int ahead = 32;  // pixels that are asked for before they are copied

  /// A row of one block of a sample.
  struct place {
    int u = 0, c = 0, n = 0;
  };
  void advance(place& at) const {
    if (++at.n < samples_) return;
    at.n = 0;
    if (++at.c < plan_.in_blocks) return;
    at.c = 0;
    ++at.u;
  }
  /// Its first pixel inside the image, or null.
  [[nodiscard]] const N* source(const place& at) const {
    const auto [u, c, n] = at;
    const tile_axis &rows = plan_.rows, &columns = plan_.columns;
    if (u < rows.left || u >= rows.left + rows.inside) return nullptr;
    const std::ptrdiff_t size = std::ptrdiff_t{plan_.in.width} * plan_.in_block;
    return x_ + sample_ * n +
           (std::ptrdiff_t{c} * plan_.in.height + rows.first + u * rows.spacing) * size +
           std::ptrdiff_t{columns.first + columns.left * columns.spacing} * plan_.in_block;
  }
  void start_row() {
    to_ = plane_pixels<N>(plan_, planes_ + at_.c * plan_.block_size() + plan_.at(at_.u, 0) +
                                     std::ptrdiff_t{at_.n} * plan_.columns.step * plan_.pixel);
    from_ = source(at_);
    inside_ = from_ == nullptr ? 0 : plan_.columns.inside;
    zero(plan_.columns.left + plan_.columns.inside - inside_);
    const N* const next = source(ahead_at_);
    to_next_ = next == nullptr || from_ == nullptr ? 0 : next - from_;
  }
  void zero(int pixels) {
    if (plan_.pixel == tile_channels)
      to_.next(pixels, [](N* pixel) { *reinterpret_cast<line*>(pixel) = line{}; });
    else
      to_.next(pixels, [size = plan_.pixel](N* pixel) { std::fill_n(pixel, size, N{}); });
  }
  template <class Channels, class Numbers>
  [[gnu::always_inline]] void copy(int pixels, Channels channels, Numbers numbers) {
    const std::ptrdiff_t spacing = std::ptrdiff_t{plan_.columns.spacing} * plan_.in_block;
    const N* from = from_;
    const std::ptrdiff_t to_next = to_next_;
    to_.next(pixels, [&](N* pixel) {
      __builtin_prefetch(from + to_next);
      if constexpr (std::same_as<Channels, std::integral_constant<int, tile_channels>>)
        *reinterpret_cast<line*>(pixel) = *reinterpret_cast<const line*>(from);
      else
        std::memcpy(pixel, from, static_cast<std::size_t>(channels) * sizeof(N));
      for (int i = channels; i < numbers; ++i) pixel[i] = N{};
      from += spacing;
    });
    from_ = from;
  }

  const tile_correlation_plan& plan_;
  const N* x_;
  N* planes_;
  int samples_, of_row_;  // rows of one sample's one block are counted
  int row_ = 0, end_;
  place at_, ahead_at_;  // what is copied, and what is asked for
  std::ptrdiff_t sample_;
  plane_pixels<N> to_;
  const N* from_ = nullptr;
  std::ptrdiff_t to_next_ = 0;
  int inside_ = 0;  // pixels of the row that are left
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
