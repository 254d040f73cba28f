// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The two passes of a resize, for any processor. Bytes are multiplied as floats: a product is a
// multiple of 2^-p below 256, so for p <= 16, which holds for filters of up to eight taps, sums are
// exact, whatever order they are added in.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/core/config.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/triangle_filter.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// Vectors of four numbers. A template, since nvcc 13 drops the attribute of other types.
template <class T>
struct vec4 {
  typedef T type __attribute__((vector_size(4 * sizeof(T))));
  typedef T unaligned __attribute__((vector_size(4 * sizeof(T)), aligned(alignof(T)), may_alias));
};

/// A row between the passes has four numbers of each pixel: red, green, blue, and one without
/// meaning. Its length is padded to a multiple of 8 pixels.
class portable_passes {
 public:
  using number = float;

  void prepare(const triangle_filter& columns, int source_width) {
    source_width_ = source_width;
    unpacked_.resize((static_cast<std::size_t>(source_width) * 3 + chunk) / chunk * chunk);
    unit_ = static_cast<float>(std::ldexp(1.0, -columns.precision()));
  }

  /// rgb: (source_width, 3)   out: (columns.outputs(), 4)
  void resize_columns(const triangle_filter& columns, const std::uint8_t* rgb, float* out) {
    unpack(rgb);
    const int taps = columns.taps(), outputs = columns.outputs();
    for (int k = 0; k < outputs; ++k) {
      const float* in = unpacked_.data() + std::ptrdiff_t{columns.first(k) - columns.begin()} * 3;
      const std::int16_t* const weights = columns.weights(k);
      four_floats sum = four_floats{} + 0.5f;
      for (int t = 0; t < taps; ++t, in += 3) sum += unit_ * weights[t] * load(in);
      store(out + std::ptrdiff_t{k} * 4, floor(sum));
    }
  }

  /// rows: rows.taps() of them, (width, 4)   out: (width), of three planes at distance `plane`
  void resize_rows(const triangle_filter& rows, int y, const float* const* in, int width,
                   std::uint8_t* out, std::size_t plane) const {
    const auto unit = static_cast<float>(std::ldexp(1.0, -rows.precision()));
    const std::int16_t* const weights = rows.weights(y);
    for (int x = 0; x < width; x += 8) {
      four_floats sum[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) sum[i] = four_floats{} + 0.5f;
      for (int t = 0; t < rows.taps(); ++t)
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i)
          sum[i] += unit * weights[t] * load(in[t] + std::ptrdiff_t{4} * (x + i));
      for (int i = 0; i < std::min(8, width - x); ++i)
        for (std::size_t c = 0; c < 3; ++c)
          out[c * plane + static_cast<std::size_t>(x + i)] =
              static_cast<std::uint8_t>(static_cast<std::int32_t>(sum[i][c]));
    }
  }

 private:
  /// Numbers that a loop of constant length takes, which compilers vectorize at -O2.
  static constexpr std::size_t chunk = 32;
  using four_floats = vec4<float>::type;
  using four_ints = vec4<std::int32_t>::type;
  using unaligned = vec4<float>::unaligned;

  static four_floats load(const float* from) { return *reinterpret_cast<const unaligned*>(from); }
  static void store(float* to, four_floats value) { *reinterpret_cast<unaligned*>(to) = value; }
  static four_floats floor(four_floats x) {  // of numbers that are not negative
    return __builtin_convertvector(__builtin_convertvector(x, four_ints), four_floats);
  }

  void unpack(const std::uint8_t* rgb) {
    const std::size_t count = static_cast<std::size_t>(source_width_) * 3;
    for (std::size_t at = 0; at < count; at += chunk) {
      // Arrays of its own, which the compiler need not test for an overlap of bytes and floats.
      std::uint8_t bytes[chunk]{};
      float numbers[chunk];
      std::memcpy(bytes, rgb + at, std::min(chunk, count - at));
      for (std::size_t i = 0; i < chunk; ++i) numbers[i] = bytes[i];
      std::memcpy(unpacked_.data() + at, numbers, sizeof numbers);
    }
  }

  int source_width_ = 0;
  float unit_ = 0;
  core::pod_vector<float> unpacked_;  // (source_width, 3), and at least one more
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
