// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The two passes of a resize on 64-bit Arm, in integers: products of 16 bits with one of four
// weights. The results are those of resize_avx2.hpp.
#pragma once

#if defined(__aarch64__)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <arm_neon.h>

#include <cordee/core/config.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/triangle_filter.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// A row between the passes has four bytes of each pixel: red, green, blue, and zero. Its length is
/// padded to a multiple of 8 pixels. 16 bytes after a source row are read, with weight zero.
class neon_passes {
 public:
  using number = std::uint8_t;

  void prepare(const triangle_filter& columns, int) {
    const int taps = columns.taps();
    quads_ = (taps + 3) / 4;
    const int outputs = (columns.outputs() + 3) / 4 * 4;  // the last is repeated
    offsets_.resize(static_cast<std::size_t>(outputs));
    weights_.clear();
    weights_.resize(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(quads_) * 4);
    for (int k = 0; k < outputs; ++k) {
      const int from = std::min(k, columns.outputs() - 1);
      offsets_[static_cast<std::size_t>(k)] = 3 * (columns.first(from) - columns.begin());
      std::memcpy(weights_.data() + std::ptrdiff_t{k} * quads_ * 4, columns.weights(from),
                  sizeof(std::int16_t) * static_cast<std::size_t>(taps));
    }
  }

  void resize_columns(const triangle_filter& columns, const std::uint8_t* rgb,
                      std::uint8_t* out) const {
    const int32x4_t half = vdupq_n_s32(1 << columns.precision() >> 1),
                    shift = vdupq_n_s32(-columns.precision());
    for (int k = 0; k < columns.outputs(); k += 4)
      vst1q_u8(out + std::ptrdiff_t{4} * k,
               bytes_of(column(rgb, k, half), column(rgb, k + 1, half), column(rgb, k + 2, half),
                        column(rgb, k + 3, half), shift));
  }

  void resize_rows(const triangle_filter& rows, int y, const std::uint8_t* const* in, int width,
                   std::uint8_t* out, std::size_t plane) const {
    const std::int16_t* const weights = rows.weights(y);
    const int32x4_t half = vdupq_n_s32(1 << rows.precision() >> 1),
                    shift = vdupq_n_s32(-rows.precision());
    for (int x = 0; x < width; x += 8) {
      int32x4_t sum[8] = {half, half, half, half, half, half, half, half};  // a pixel each
      for (int t = 0; t < rows.taps(); ++t)
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i)
          add_four_pixels(vld1q_u8(in[t] + std::ptrdiff_t{4} * x + 16 * i), vdup_n_s16(weights[t]),
                          sum + 4 * i);
      std::uint8_t bytes[32];
      vst1q_u8(bytes, bytes_of(sum[0], sum[1], sum[2], sum[3], shift));
      vst1q_u8(bytes + 16, bytes_of(sum[4], sum[5], sum[6], sum[7], shift));
      const uint8x8x4_t colors = vld4_u8(bytes);
      const int count = std::min(8, width - x);
#pragma GCC unroll 3
      for (std::size_t c = 0; c < 3; ++c) {
        if (count == 8) {
          vst1_u8(out + c * plane + x, colors.val[c]);
        } else {
          std::uint8_t some[8];
          vst1_u8(some, colors.val[c]);
          std::memcpy(out + c * plane + x, some, static_cast<std::size_t>(count));
        }
      }
    }
  }

 private:
  /// Four numbers of each pixel times its weight.
  [[gnu::always_inline]] static void add_four_pixels(uint8x16_t pixels, int16x4_t weight,
                                                     int32x4_t* sum) {
    const int16x8_t low = words_of(vget_low_u8(pixels)), high = words_of(vget_high_u8(pixels));
    sum[0] = vmlal_s16(sum[0], vget_low_s16(low), weight);
    sum[1] = vmlal_s16(sum[1], vget_high_s16(low), weight);
    sum[2] = vmlal_s16(sum[2], vget_low_s16(high), weight);
    sum[3] = vmlal_s16(sum[3], vget_high_s16(high), weight);
  }
  static int16x8_t words_of(uint8x8_t bytes) { return vreinterpretq_s16_u16(vmovl_u8(bytes)); }
  static uint8x16_t bytes_of(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d, int32x4_t shift) {
    const auto two = [&](int32x4_t first, int32x4_t second) {
      return vqmovun_s16(
          vcombine_s16(vqmovn_s32(vshlq_s32(first, shift)), vqmovn_s32(vshlq_s32(second, shift))));
    };
    return vcombine_u8(two(a, b), two(c, d));
  }

  /// The sums of output k.
  [[gnu::always_inline]] int32x4_t column(const std::uint8_t* rgb, int k, int32x4_t sum) const {
    // Four pixels of three bytes, each with a fourth byte: zero, from outside of the table.
    static constexpr std::uint8_t places[16] = {0, 1, 2, 99, 3, 4,  5,  99,
                                                6, 7, 8, 99, 9, 10, 11, 99};
    const uint8x16_t table = vld1q_u8(places);
    const std::uint8_t* in = rgb + offsets_[static_cast<std::size_t>(k)];
    const std::int16_t* w = weights_.data() + std::ptrdiff_t{k} * quads_ * 4;
    for (int q = 0; q < quads_; ++q, in += 12, w += 4) {
      const uint8x16_t pixels = vqtbl1q_u8(vld1q_u8(in), table);
      const int16x8_t low = words_of(vget_low_u8(pixels)), high = words_of(vget_high_u8(pixels));
      const int16x4_t four = vld1_s16(w);
      sum = vmlal_lane_s16(sum, vget_low_s16(low), four, 0);
      sum = vmlal_lane_s16(sum, vget_high_s16(low), four, 1);
      sum = vmlal_lane_s16(sum, vget_low_s16(high), four, 2);
      sum = vmlal_lane_s16(sum, vget_high_s16(high), four, 3);
    }
    return sum;
  }

  int quads_ = 0;                           // groups of four taps of an output
  core::pod_vector<int> offsets_;           // (outputs), of the first byte
  core::pod_vector<std::int16_t> weights_;  // (outputs, quads, 4), zeros behind the taps
};

}  // namespace cordee::inline CORDEE_ABI::detail::images

#endif
