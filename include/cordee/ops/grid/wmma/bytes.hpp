// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution of bytes on tensor cores (ops/convolution_bytes.hpp), exact in 32 bits:
//
//   sum over c, r, s of  w (q - z)  =  sum of w q  -  z sum of w,   q = z outside of the image
//
// so the image of the weights ends with each filter's sum. Gradients are bf16's products, summed in
// float, of what quantisation left.
#pragma once

#include <cstring>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/grid/pack.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/wmma/number.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// packed[k, r, s, c] = w[k, c, r, s],  0 where k >= K or c >= C
struct pack_bytes_at {
  krsc place;
  const std::int8_t* w;
  std::int8_t* packed;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<unsigned>(i);
    const unsigned c = at % place.padded_channels, row = at / place.padded_channels;
    const unsigned tap = row % place.taps, k = row / place.taps;
    packed[i] = c < place.channels && k < place.filters
                    ? w[(k * place.channels + c) * place.taps + tap]
                    : std::int8_t{0};
  }
};
struct sum_filter_at {
  krsc place;
  const std::int8_t* w;
  std::int32_t* sums;
  CORDEE_DEVICE void operator()(std::size_t k) const {
    const std::size_t each = std::size_t{place.channels} * place.taps;
    std::int32_t sum = 0;
    for (std::size_t i = 0; k < place.filters && i < each; ++i) sum += w[k * each + i];
    sums[k] = sum;
  }
};
struct quantise_at {
  const float* x;
  const affine<float>* by;
  std::uint8_t* q;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    q[i] = static_cast<std::uint8_t>(by->quantise(x[i]));
  }
};
struct simulate_narrow {
  const float* x;
  const affine<float>* by;
  bfloat* left;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    left[i] = rounded<bfloat>(by->simulate(x[i]));
  }
};

/// Prologue: outside of an image lies the zero point.
struct zero_point_outside {
  static constexpr bool changes = false;
  const affine<float>* by;

  template <class Block>
  CORDEE_DEVICE void copy(Block& b, std::byte* to, const void* from, bool there) const {
    if (there) return b.copy_async(to, from, true);
    const std::uint32_t four = static_cast<std::uint32_t>(by->zero) * 0x01010101u;
    for (int i = 0; i < 4; ++i) reinterpret_cast<std::uint32_t*>(to)[i] = four;
  }
};

/// Epilogue: the sums less the zero point's, or what numbers they stand for.
template <SumSink Out>
struct sunk {
  static constexpr int width = 16 / static_cast<int>(sizeof(Out));
  struct kept {};
  Out* y;
  const std::int32_t* filter_sums;
  const affine<float>* by;
  const float* scales;  // one a filter
  int filters;

  CORDEE_DEVICE void put(std::size_t at, int filter, const std::int32_t* sums, kept&) const {
    Out out[width];
    const std::int32_t zero = by->zero;
    for (int i = 0; i < width; ++i) {
      const int f = filter + i;
      const std::int32_t sum = sums[i] - zero * filter_sums[f];
      if constexpr (std::same_as<Out, float>)
        out[i] = f < filters ? by->scale * scales[f] * static_cast<float>(sum) : 0.0f;
      else
        out[i] = sum;
    }
    std::memcpy(__builtin_assume_aligned(static_cast<void*>(y + at), 16), out, sizeof(out));
  }
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block&, const kept&, std::int32_t*, int /*tile*/, int) const {}
};

/// Epilogue of gradients: dx <- sum where x passed straight through, 0 elsewhere, or adds that.
struct passed_straight {
  static constexpr int width = pack<float>::size;
  struct kept {};
  const float* x;
  const affine<float>* by;
  float* dx;
  into how;

  CORDEE_DEVICE void put(std::size_t at, int /*filter*/, const float* sums, kept&) const {
    const pack<float> in(x + at, width);
    pack<float> out;
    if (how == into::add) out = pack<float>(dx + at, width);
    for (int i = 0; i < width; ++i) out.at[i] += by->passes(in.at[i]) ? sums[i] : 0;
    out.store(dx + at, width);
  }
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block&, const kept&, float*, int /*tile*/, int) const {}
};

}  // namespace cordee::inline CORDEE_ABI::detail
