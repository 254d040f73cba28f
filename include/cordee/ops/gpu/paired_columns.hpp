// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images of four channels as a convolution of stride 2 reads them by pairs of columns, as images of
// eight channels and half the width: a window of 7 x 7 becomes one of 7 x 4, of stride (2, 1),
// which is small enough for cuDNN's graphs with statistics (32 taps).
//
//   images    (N, H, 2 + W, 4)   two pixels of zeros before each row: (N, H, 1 + W / 2, 8)
//   weights   (K', 7, 1 + 7, 4)  a tap of zeros before each row:      (K', 7, 4, 8)
//
// Output column o has the pairs o-1 .. o+2 of a row, of which the last may be behind it, as the
// first is before it: padded by one pair on each side. (Padding by two and one in place of the
// zeros in memory has no plan with statistics.)
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Pair i of the images: 16 bytes.
template <precision::StorageOnly N>
struct normalize_pairs_op {
  fast_divisor by_pairs, by_height;  // of a row, zeros included; rows of an image
  std::size_t channels, width;
  const std::uint8_t* bytes;  // (N, C, H, W)
  normalization statistics;
  N* x;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    using real = precision::wide<N>;
    const int row = by_pairs.quotient(static_cast<int>(i)),
              pair = static_cast<int>(i) - row * by_pairs.divisor, image = by_height.quotient(row);
    vec_16b<N> out;
    if (pair > 0) {
      const auto height = static_cast<std::size_t>(by_height.divisor),
                 line = static_cast<std::size_t>(row - image * by_height.divisor);
      const std::uint8_t* from =
          bytes + (static_cast<std::size_t>(image) * channels * height + line) * width +
          2 * static_cast<std::size_t>(pair - 1);
      for (std::size_t c = 0; c < 4; ++c, from += height * width) {
        if (c >= channels) break;
        std::uint8_t two[2];
        load_unit(from, two);
        for (std::size_t k = 0; k < 2; ++k)
          out.value[4 * k + c] =
              (static_cast<real>(two[k]) / 255 - static_cast<real>(statistics.mean[c])) *
              static_cast<real>(statistics.scale[c]);
      }
    }
    out.store(x + i * vec_16b<N>::size);
  }
};

/// Tap i, of four channels, of the windows with a tap of zeros before each row.
template <precision::StorageOnly N>
struct widen_windows_op {
  fast_divisor by_row;  // taps of such a row
  const N* from;        // (K', R, S, 4)
  N* to;                // (K', R, 1 + S, 4)

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const int row = by_row.quotient(static_cast<int>(i)),
              tap = static_cast<int>(i) - row * by_row.divisor;
    N numbers[4] = {};
    if (tap > 0)
      load_unit(from + 4 * (static_cast<std::size_t>(row * (by_row.divisor - 1) + tap - 1)),
                numbers);
    store_unit(numbers, to + 4 * i);
  }
};
/// Tap i of the windows without them.
template <precision::StorageOnly N>
struct narrow_windows_op {
  fast_divisor by_row;  // taps of a row
  const N* from;        // (K', R, 1 + S, 4)
  N* to;                // (K', R, S, 4)

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t row = static_cast<std::size_t>(by_row.quotient(static_cast<int>(i)));
    N numbers[4];
    load_unit(from + 4 * (i + row + 1), numbers);
    store_unit(numbers, to + 4 * i);
  }
};

/// Images of three or four channels and even width from bytes (N, C, H, W), by pairs of columns.
template <precision::StorageOnly N, GpuStream S>
void normalize_bytes_by_pairs(const extent& e, int samples, const std::uint8_t* bytes,
                              const normalization& statistics, N* x, S s) {
  expects(e.channels <= 4 && e.width % 2 == 0,
          "normalize_bytes_by_pairs: an image has at most four channels, and even width");
  expect_vec_aligned<2>(bytes);
  const int pairs = e.width / 2 + 1;
  const std::size_t n = static_cast<std::size_t>(samples) * static_cast<std::size_t>(e.height) *
                        static_cast<std::size_t>(pairs);
  expects(n <= INT32_MAX / 8, "normalize_bytes: a batch has fewer than 2^31 numbers");
  for_each(s, n,
           normalize_pairs_op<N>{fast_divisor(pairs), fast_divisor(e.height),
                                 static_cast<std::size_t>(e.channels),
                                 static_cast<std::size_t>(e.width), bytes, statistics, x});
}
/// to (filters', window, 1 + window, 4) <- from (filters', window, window, 4).
template <precision::StorageOnly N, GpuStream S>
void widen_windows(int filters, int window, const N* from, N* to, S s) {
  for_each(s, static_cast<std::size_t>(filters * window * (window + 1)),
           widen_windows_op<N>{fast_divisor(window + 1), from, to});
}
/// to (filters', window, window, 4) <- from (filters', window, 1 + window, 4).
template <precision::StorageOnly N, GpuStream S>
void narrow_windows(int filters, int window, const N* from, N* to, S s) {
  for_each(s, static_cast<std::size_t>(filters * window * window),
           narrow_windows_op<N>{fast_divisor(window), from, to});
}

/// Packed weights (filters', window, window, 4) as a problem with a margin has them, in memory of
/// the stream; those themselves of a problem without one.
template <Number N, GpuStream S>
class wide_windows {
 public:
  /// `reads`: whether they are read; else `packed` is written by narrow().
  wide_windows(const convolution_problem& p, int filters, const N* packed, bool reads, S s)
      : filters_(filters),
        window_(p.margin == 0 ? 0 : p.window),
        packed_(const_cast<N*>(packed)),
        memory_(s, static_cast<std::size_t>(filters * window_ * (window_ + 1) * 4)) {
    if constexpr (precision::StorageOnly<N>)
      if (window_ > 0 && reads) widen_windows(filters, window_, packed, memory_.data(), s);
  }
  [[nodiscard]] N* get() const { return window_ > 0 ? memory_.data() : packed_; }
  void narrow(S s) const {
    if constexpr (precision::StorageOnly<N>)
      if (window_ > 0) narrow_windows(filters_, window_, memory_.data(), packed_, s);
  }

 private:
  int filters_, window_;
  N* packed_;
  device::stream_buffer<N, S> memory_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
