// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies samples into the planes of a tile_correlation_plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

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
  void next(int count, const F& f) {
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

/// One row of the plane: sample n's row `x` of one block, or zeros if it is null.
template <class N>
void fill_plane_row(const tile_correlation_plan& plan, const N* x, int n, int u, N* plane) {
  const tile_axis& columns = plan.columns;
  const int left = x == nullptr ? plan.row_pixels : columns.left,
            inside = x == nullptr ? 0 : columns.inside, right = plan.row_pixels - left - inside;
  N* to = plane + plan.at(u, 0) + std::ptrdiff_t{n} * columns.step * plan.pixel;
  if (x != nullptr) x += std::ptrdiff_t{columns.first + left * columns.spacing} * plan.in_block;
  const auto size = static_cast<std::ptrdiff_t>(plan.pixel);
  if (plan.together == 1 && plan.pixel == plan.in_block && columns.spacing == 1) {
    std::fill_n(to, left * size, N{});
    to = std::copy_n(x, inside * size, to + left * size);
    std::fill_n(to, right * size, N{});
    return;
  }
  plane_pixels<N> pixels(plan, to);
  const auto zero = [size](N* pixel) { std::fill_n(pixel, size, N{}); };
  pixels.next(left, zero);
  const std::ptrdiff_t spacing = std::ptrdiff_t{columns.spacing} * plan.in_block;
  const auto copy = [&](auto channels, auto numbers) {
    pixels.next(inside, [&](N* pixel) {
      std::copy_n(x, channels, pixel);
      for (int i = channels; i < numbers; ++i) pixel[i] = N{};
      x += spacing;
    });
  };
  // Sizes that the compiler knows take a fraction of the time.
  if (plan.pixel == tile_channels)
    copy(std::integral_constant<int, tile_channels>{},
         std::integral_constant<int, tile_channels>{});
  else if (plan.in_block == 3)
    copy(std::integral_constant<int, 3>{}, std::integral_constant<int, 4>{});
  else
    copy(plan.in_block, plan.pixel);
  pixels.next(right, zero);
}

/// The planes of `samples` samples, at most plan.together, which are `size` numbers apart.
/// Positions of samples that are missing keep what the memory held.
template <class N>
void fill_planes(const tile_correlation_plan& plan, const N* x, int samples, std::size_t size,
                 N* planes) {
  const std::ptrdiff_t row = std::ptrdiff_t{plan.in.width} * plan.in_block;
  const int rows = plan.planes() * plan.plane_rows();
  for (int c = 0; c < plan.in_blocks; ++c, planes += plan.block_size())
    for (int n = 0; n < samples; ++n) {
      const N* const block = x + static_cast<std::ptrdiff_t>(size) * n + c * row * plan.in.height;
      for (int i = 0; i < rows; ++i) {
        // In the order of the memory; the last plane may have a row less, which is zero.
        const int u = i % plan.plane_rows() * plan.rows.step + i / plan.plane_rows();
        const int h = plan.rows.first + u * plan.rows.spacing;
        const bool inside = u >= plan.rows.left && u < plan.rows.left + plan.rows.inside;
        fill_plane_row(plan, inside ? block + h * row : nullptr, n, u, planes);
      }
    }
  std::fill_n(planes, plan.tail(), N{});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
