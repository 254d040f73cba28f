// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The two passes of a resize with AVX2, in integers: products of 16 bits, two taps to an
// instruction. The results are those of resize_passes.hpp.
#pragma once

#if defined(__AVX2__)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include <cordee/core/config.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/triangle_filter.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// A row between the passes has four bytes of each pixel: red, green, blue, and zero. Its length is
/// padded to a multiple of 8 pixels. 16 bytes after a source row are read, with weight zero.
class avx2_passes {
 public:
  using number = std::uint8_t;

  void prepare(const triangle_filter& columns, int) {
    const int taps = columns.taps();
    quads_ = (taps + 3) / 4;
    const int outputs = (columns.outputs() + 3) / 4 * 4;  // the last is repeated
    offsets_.resize(static_cast<std::size_t>(outputs));
    weights_.resize(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(quads_) * 16);
    std::int16_t* to = weights_.data();
    for (int k = 0; k < outputs; ++k) {
      const int from = std::min(k, columns.outputs() - 1);
      offsets_[static_cast<std::size_t>(k)] = 3 * (columns.first(from) - columns.begin());
      for (int t = 0; t < taps; t += 4, to += 16) {
        std::int16_t four[4]{};
        std::memcpy(four, columns.weights(from) + t,
                    sizeof(std::int16_t) * static_cast<std::size_t>(std::min(4, taps - t)));
        for (int i = 0; i < 8; ++i) {
          to[i] = four[i % 2];
          to[8 + i] = four[2 + i % 2];
        }
      }
    }
  }

  void resize_columns(const triangle_filter& columns, const std::uint8_t* rgb,
                      std::uint8_t* out) const {
    if (quads_ == 1) return four_columns_at_a_time<1>(columns, rgb, out);
    if (quads_ == 2) return four_columns_at_a_time<2>(columns, rgb, out);
    four_columns_at_a_time<0>(columns, rgb, out);
  }

  void resize_rows(const triangle_filter& rows, int y, const std::uint8_t* const* in, int width,
                   std::uint8_t* out, std::size_t plane) const {
    const std::int16_t* const weights = rows.weights(y);
    const int taps = rows.taps();
    const __m256i half = _mm256_set1_epi32(1 << rows.precision() >> 1);
    const __m128i shift = _mm_cvtsi32_si128(rows.precision());
    for (int x = 0; x < width; x += 8) {
      // Pixels (0, 4), (1, 5), (2, 6), (3, 7), 32 bits a color.
      __m256i sum0 = half, sum1 = half, sum2 = half, sum3 = half;
      for (int t = 0; t < taps; t += 2) {
        const bool pair = t + 1 < taps;
        const __m256i a = load(in[t] + std::ptrdiff_t{4} * x),
                      b = load(in[pair ? t + 1 : t] + std::ptrdiff_t{4} * x),
                      zero = _mm256_setzero_si256(), low = _mm256_unpacklo_epi8(a, b),
                      high = _mm256_unpackhi_epi8(a, b),
                      w = pair_of(weights[t], pair ? weights[t + 1] : std::int16_t{0});
        sum0 = add_products(sum0, _mm256_unpacklo_epi8(low, zero), w);
        sum1 = add_products(sum1, _mm256_unpackhi_epi8(low, zero), w);
        sum2 = add_products(sum2, _mm256_unpacklo_epi8(high, zero), w);
        sum3 = add_products(sum3, _mm256_unpackhi_epi8(high, zero), w);
      }
      const __m256i first = _mm256_packs_epi32(_mm256_sra_epi32(sum0, shift),
                                               _mm256_sra_epi32(sum1, shift)),
                    second = _mm256_packs_epi32(_mm256_sra_epi32(sum2, shift),
                                                _mm256_sra_epi32(sum3, shift));
      separate(_mm256_packus_epi16(first, second), std::min(8, width - x), out + x, plane);
    }
  }

 private:
  static __m256i load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static __m256i add_products(__m256i sum, __m256i numbers, __m256i weights) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(numbers, weights));
  }
  static __m256i pair_of(std::int16_t a, std::int16_t b) {
    return _mm256_set1_epi32(
        static_cast<int>(static_cast<std::uint32_t>(b) << 16 | static_cast<std::uint16_t>(a)));
  }

  /// The sums of output k: of its taps 0, 1 modulo 4 in the low half, of the others in the high.
  template <int Quads>
  [[gnu::always_inline]] __m256i half_sums(const std::uint8_t* rgb, int k) const {
    // Bytes of two pixels as words (r r g g b b 0 0): of the first two pixels, and of the next two.
    const __m256i words =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                         6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const int quads = Quads > 0 ? Quads : quads_;
    const std::uint8_t* const in = rgb + offsets_[static_cast<std::size_t>(k)];
    const std::int16_t* const w = weights_.data() + std::ptrdiff_t{k} * quads * 16;
    const auto products = [&](int q) {
      const __m128i pixels =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + std::ptrdiff_t{q} * 12));
      return _mm256_madd_epi16(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(pixels), words),
                               load(w + std::ptrdiff_t{q} * 16));
    };
    __m256i sum = products(0);
    for (int q = 1; q < quads; ++q) sum = _mm256_add_epi32(sum, products(q));
    return sum;
  }

  template <int Quads>
  void four_columns_at_a_time(const triangle_filter& columns, const std::uint8_t* rgb,
                              std::uint8_t* out) const {
    const __m256i half = _mm256_set1_epi32(1 << columns.precision() >> 1);
    const __m128i shift = _mm_cvtsi32_si128(columns.precision());
    const auto sum_halves = [&](__m256i a, __m256i b) {  // outputs a and b
      const __m256i sum = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                           _mm256_permute2x128_si256(a, b, 0x31));
      return _mm256_sra_epi32(_mm256_add_epi32(sum, half), shift);
    };
    for (int k = 0; k < columns.outputs(); k += 4) {
      const __m256i a = sum_halves(half_sums<Quads>(rgb, k), half_sums<Quads>(rgb, k + 1)),
                    b = sum_halves(half_sums<Quads>(rgb, k + 2), half_sums<Quads>(rgb, k + 3)),
                    words = _mm256_packs_epi32(a, b),  // 0 2 | 1 3
          bytes = _mm256_packus_epi16(words, words);   // 0 2 0 2 | 1 3 1 3
      const __m128i pixels = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes),
                                                _mm256_extracti128_si256(bytes, 1));  // 0 1 2 3
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + std::ptrdiff_t{4} * k), pixels);
    }
  }

  /// `count` of 8 pixels of four bytes to three planes.
  static void separate(__m256i pixels, int count, std::uint8_t* out, std::size_t plane) {
    const __m256i by_color =
        _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                         0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i planes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, by_color),
                                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    std::uint8_t bytes[32];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), planes);
    if (count == 8)
      for (std::size_t c = 0; c < 3; ++c) std::memcpy(out + c * plane, bytes + c * 8, 8);
    else
      for (std::size_t c = 0; c < 3; ++c)
        std::memcpy(out + c * plane, bytes + c * 8, static_cast<std::size_t>(count));
  }

  int quads_ = 0;                           // groups of four taps of an output
  core::pod_vector<int> offsets_;           // (outputs), of the first byte
  core::pod_vector<std::int16_t> weights_;  // (outputs, quads, 2, 4, 2)
};

}  // namespace cordee::inline CORDEE_ABI::detail::images

#endif
