// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `direct`'s convolution of bytes (ops/convolution_bytes.hpp): by the instruction that adds
// four products, on Arm by that of small matrices, or with AVX2 alone by one of two, as the weights
// of a layer allow.
//
// vpmaddubsw multiplies 32 bytes, vpmaddwd 16 numbers of 16 bits; but the former adds two products
// in 16 bits, which clips. If no weight of a layer has a magnitude above m, n steps of two products
// have sums of magnitudes up to
//
//   n 2 255 m  <=  32767      for n = floor(32767 / (510 m)):  64 for m = 1, 9 for m = 7, 1 for 64
//
// so nothing is clipped, and n steps are added in 16 bits before the sums are widened, by vpmaddwd
// with ones. A layer whose window rows of a block of channels have at most n steps is computed so
// (m up to 32 where the window is one pixel, up to 10 where it is 3x3): all layers of 2 bits, and
// of 4 with windows up to 4x4. On Zen 3 that is 1.2 to 2 times as fast as products of 16 bits
// (benchmarks/results/2026-11-26-integers-avx2.md), which the other layers have. 3x3 windows of
// stride 1 with weights of more than 2 bits have the tiles of byte_winograd.hpp, which are as fast
// or faster (benchmarks/results/2026-11-30-integers-avx2.md). Widening every step, for m up to 64
// or pairs of weights with |w0| + |w1| <= 128, would be 1.24 times as fast without loads; there is
// no tile for it, since one pair above that in a layer forbids it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/equal_part.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/direct/int8/byte_correlation.hpp>
#include <cordee/ops/engines/direct/int8/byte_matrix_tile.hpp>
#include <cordee/ops/engines/direct/int8/byte_pair_tile.hpp>
#include <cordee/ops/engines/direct/int8/byte_winograd.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Steps of two products of bytes, with weights of magnitudes up to `largest`, that fit 16 bits.
constexpr int steps_in_16_bits(int largest) { return 32767 / (2 * 255 * std::max(largest, 1)); }

/// Packed weights end with the number of window rows that are added in 16 bits; 0: products are of
/// 16 bits, in the tiles of byte_winograd.hpp where it computes the problem.
template <int V>
class byte_correlation_by_weights {
 public:
  using chunk = byte_sums_chunk;

  explicit byte_correlation_by_weights(const convolution_problem& p)
      : pairs_(p),
        shorts_(p),
        winograd_(p),
        weights_(p.weights()),
        uses_winograd_(byte_winograd<V>::computes(p)) {}

  [[nodiscard]] const extent& in() const { return pairs_.in(); }
  [[nodiscard]] int block() const { return pairs_.block(); }

  [[nodiscard]] std::size_t packed_size() const {
    const std::size_t of_pairs = uses_winograd_ ? winograd_.packed_size() : pairs_.packed_size();
    return std::max(of_pairs, shorts_.packed_size() + sizeof(std::int32_t)) + sizeof(std::int32_t);
  }
  void pack(const std::int8_t* weights,  // (K, C, R, S)
            std::int8_t* packed) const {
    int largest = 0;
    for (std::size_t i = 0; i < weights_; ++i)
      largest = std::max(largest, std::abs(int{weights[i]}));
    const std::int32_t rows =
        uses_winograd_ && largest > 1 ? 0 : steps_in_16_bits(largest) / shorts_.steps();
    if (rows > 0) {
      shorts_.pack(weights, packed);
      std::memcpy(packed + shorts_.packed_size(), &rows, sizeof rows);
    } else if (uses_winograd_) {
      winograd_.pack(weights, packed);
    } else {
      pairs_.pack(weights, packed);
    }
    std::memcpy(packed + packed_size() - sizeof rows, &rows, sizeof rows);
  }

  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  void run(int samples, const In* x, const affine_quantizer<float>& k, const std::int8_t* packed,
           const float* scales, Out* y, cpu::stream s) const {
    with_products(packed, [&](const auto& by) { by.run(samples, x, k, packed, scales, y, s); });
  }
  template <class X, class ToBytes, class Consume>
  void run_samples(byte_scratch& memory, std::size_t samples, const X& x_of,
                   const ToBytes& to_bytes, int zero_point, const std::int8_t* packed,
                   const std::int32_t* initial, const Consume& consume,
                   core::equal_part part = {}) const {
    with_products(packed, [&](const auto& by) {
      by.run_samples(memory, samples, x_of, to_bytes, zero_point, packed, initial, consume, part);
    });
  }
  void reserve(byte_scratch& memory, std::size_t samples) const {
    uses_winograd_ ? winograd_.reserve(memory, samples) : pairs_.reserve(memory, samples);
    shorts_.reserve(memory, samples);
  }

 private:
  template <class F>
  void with_products(const std::int8_t* packed, const F& f) const {
    std::int32_t rows;
    std::memcpy(&rows, packed + packed_size() - sizeof rows, sizeof rows);
    rows > 0 ? f(shorts_) : uses_winograd_ ? f(winograd_) : f(pairs_);
  }

  byte_correlation_by<V, pair_products> pairs_;
  byte_correlation_by<V, short_products> shorts_;
  byte_winograd<V> winograd_;
  std::size_t weights_;
  bool uses_winograd_;
};

/// With run, for all samples on a stream, and run_samples, for some on this thread.
template <int V, bool Dots>
using byte_correlation = std::conditional_t<
    !Dots && has_byte_pairs<V>, byte_correlation_by_weights<V>,
    byte_correlation_by<V, std::conditional_t<Dots && byte_matrices && V == lanes<float>,
                                              matrix_products<true>, byte_products<Dots>>>>;

}  // namespace cordee::inline CORDEE_ABI::detail::ops
