// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Antialiased bilinear resize of RGB bytes: columns first, rounded to bytes, then rows, with the
// weights of triangle_filter.hpp. Equals torchvision's (v2, antialias, uint8) bit for bit with
// AVX2 and on 64-bit Arm, and elsewhere where the image shrinks to no less than a quarter; else
// within a grey level.
//
// No sum needs clamping: rounding moves the sum of n weights by at most n 2^-(p+1), where p >= 14
// and n 255 2^-(p+1) < 1/2 follow from the largest weight being at least 1/n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/resize_avx2.hpp>
#include <cordee/images/resize_neon.hpp>
#include <cordee/images/resize_passes.hpp>
#include <cordee/images/triangle_filter.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// Resizes one image after another and reuses its memory. Not thread-safe.
template <class Passes>
class basic_resizer {
 public:
  /// Bytes after the source that `resize` may read; their values do not matter.
  static constexpr std::size_t slack = 16;

  /// Sets what `resize` computes: `window` of an image of size `from` that is resized to `to`.
  /// Returns the region of the source that it depends on. Requires that sizes are positive and
  /// `window` lies within `to`.
  region prepare(image_size from, image_size to, region window) {
    expects(from.width > 0 && from.height > 0 && lies_in(window, to),
            "resizer: the source is empty, or the window is not within the resized image");
    columns_.prepare(from.width, to.width, window.left, window.width);
    rows_.prepare(from.height, to.height, window.top, window.height);
    window_ = window;
    source_ = {columns_.begin(), rows_.begin(), columns_.end() - columns_.begin(),
               rows_.end() - rows_.begin()};
    passes_.prepare(columns_, source_.width);
    return source_;
  }

  /// rgb: (source.height, source.width, 3), the region that `prepare` returned, and `slack` bytes.
  /// planar: (3, window.height, window.width).
  void resize(std::span<const std::uint8_t> rgb, std::span<std::uint8_t> planar) {
    const std::size_t plane = area(window_), row_bytes = std::size_t{3} * columns(source_);
    expects(rgb.size() == 3 * area(source_) + slack && planar.size() == 3 * plane,
            "resizer: the buffers are not of the sizes that were prepared");
    // Rows of the source whose columns are resized, as many as an output's filter has.
    const int taps = rows_.taps();
    const std::size_t stride = 4 * ((columns(window_) + 7) / 8 * 8);
    ring_.resize(static_cast<std::size_t>(taps) * stride);
    in_.resize(static_cast<std::size_t>(taps));
    const auto slot = [&](int row) {
      return ring_.data() + static_cast<std::size_t>(row % taps) * stride;
    };
    for (int y = 0, ready = 0; y < window_.height; ++y) {
      const int first = rows_.first(y) - source_.top;
      for (; ready < first + taps; ++ready)
        passes_.resize_columns(columns_, rgb.data() + static_cast<std::size_t>(ready) * row_bytes,
                               slot(ready));
      for (int t = 0; t < taps; ++t) in_[static_cast<std::size_t>(t)] = slot(first + t);
      passes_.resize_rows(rows_, y, in_.data(), window_.width,
                          planar.data() + static_cast<std::size_t>(y) * columns(window_), plane);
    }
  }

 private:
  static std::size_t columns(const region& r) { return static_cast<std::size_t>(r.width); }
  static std::size_t area(const region& r) {
    return columns(r) * static_cast<std::size_t>(r.height);
  }

  Passes passes_;
  triangle_filter columns_, rows_;
  region window_, source_;
  core::pod_vector<typename Passes::number> ring_;       // (taps, window.width, 4)
  core::pod_vector<const typename Passes::number*> in_;  // (taps)
};

#if defined(__AVX2__)
using resizer = basic_resizer<avx2_passes>;
#elif defined(__aarch64__)
using resizer = basic_resizer<neon_passes>;
#else
using resizer = basic_resizer<portable_passes>;
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::images
