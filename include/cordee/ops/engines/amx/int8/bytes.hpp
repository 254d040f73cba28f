// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution of bytes that integer networks use: by AMX's tiles in a build for processors that
// have them, if the system permits them; else engine `direct`'s. Both compute the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/equal_part.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/amx/int8/byte_correlation.hpp>
#include <cordee/ops/engines/amx/tiles/permission.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/int8/bytes.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// By tiles if they are permitted, else by engine `direct`; packed weights are of one or the other.
template <int V, TileUnit Unit>
class permitted_byte_correlation {
 public:
  using chunk = byte_sums_chunk;

  explicit permitted_byte_correlation(const convolution_problem& p,
                                      bool permitted = tiles_permitted())
      : by_tiles_(p), by_vectors_(p), permitted_(permitted) {}

  [[nodiscard]] const extent& in() const { return by_tiles_.in(); }
  [[nodiscard]] int block() const { return by_tiles_.block(); }

  [[nodiscard]] std::size_t packed_size() const {
    return with_kernel([](const auto& by) { return by.packed_size(); });
  }
  void pack(const std::int8_t* weights,  // (K, C, R, S)
            std::int8_t* packed) const {
    with_kernel([&](const auto& by) { by.pack(weights, packed); });
  }
  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  void run(int samples, const In* x, const affine_quantizer<float>& k, const std::int8_t* packed,
           const float* scales, Out* y, cpu::stream s) const {
    with_kernel([&](const auto& by) { by.run(samples, x, k, packed, scales, y, s); });
  }
  template <class X, class ToBytes, class Consume>
  void run_samples(byte_scratch& memory, std::size_t samples, const X& x_of,
                   const ToBytes& to_bytes, int zero_point, const std::int8_t* packed,
                   const std::int32_t* initial, const Consume& consume,
                   core::equal_part part = {}) const {
    with_kernel([&](const auto& by) {
      by.run_samples(memory, samples, x_of, to_bytes, zero_point, packed, initial, consume, part);
    });
  }
  static constexpr bool fuses = requires {
    requires byte_correlation_by_tiles<V, Unit>::fuses;
    requires byte_correlation<V, byte_dots>::fuses;
  };
  template <class X, class ToBytes, class Y, class EpilogueOf>
  void run_fused(byte_scratch& memory, std::size_t samples, const X& x_of, const ToBytes& to_bytes,
                 int zero_point, const std::int8_t* packed, const std::int32_t* initial,
                 const Y& y_of, const EpilogueOf& epilogue_of, const byte_region& r) const {
    with_kernel([&](const auto& by) {
      by.run_fused(memory, samples, x_of, to_bytes, zero_point, packed, initial, y_of, epilogue_of,
                   r);
    });
  }
  [[nodiscard]] bool prefers_zeros() const { return permitted_; }
  [[nodiscard]] byte_region region_of(core::equal_part part) const {
    return with_kernel([&](const auto& by) { return by.region_of(part); });
  }
  [[nodiscard]] int rows() const {
    return with_kernel([](const auto& by) { return by.rows(); });
  }
  [[nodiscard]] int row_pixels() const {
    return with_kernel([](const auto& by) { return by.row_pixels(); });
  }
  [[nodiscard]] byte_region rows_region(int first, int last) const {
    return with_kernel([&](const auto& by) { return by.rows_region(first, last); });
  }
  void reserve(byte_scratch& memory, std::size_t samples) const {
    with_kernel([&](const auto& by) { by.reserve(memory, samples); });
  }

 private:
  template <class F>
  auto with_kernel(const F& f) const {
    return permitted_ ? f(by_tiles_) : f(by_vectors_);
  }

  byte_correlation_by_tiles<V, Unit> by_tiles_;
  byte_correlation<V, byte_dots> by_vectors_;
  bool permitted_;
};

/// The byte correlation of this build.
#if CORDEE_ABI_AMX
template <int V>
using default_byte_correlation =
    std::conditional_t<V == 16, permitted_byte_correlation<V, amx_tiles>,
                       byte_correlation<V, byte_dots>>;
#else
template <int V>
using default_byte_correlation = byte_correlation<V, byte_dots>;
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::ops
