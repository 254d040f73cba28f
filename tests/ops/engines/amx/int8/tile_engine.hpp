// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An engine that only convolves bytes.
#pragma once

#include <cordee/ops/engines/amx/int8/byte_correlation.hpp>

namespace support {

template <class Correlation>
struct byte_engine {
  static constexpr std::string_view name = "bytes by tiles";
  static constexpr int V = cordee::detail::ops::lanes<float>;
  using correlation = Correlation;

  template <class>
  static constexpr int block(int channels) {
    return cordee::detail::ops::channel_block_size<V>(channels);
  }
  static std::size_t packed_bytes(const cordee::convolution_problem& p) {
    return correlation(p).packed_size();
  }
  static void pack_bytes(const cordee::convolution_problem& p, const std::int8_t* weights,
                         std::int8_t* packed, cordee::cpu::stream) {
    correlation(p).pack(weights, packed);
  }
  template <class In, class Out>
  static void fprop_bytes(const cordee::convolution_problem& p, int samples, const In* x,
                          const cordee::detail::ops::affine_quantizer<float>& k,
                          const std::int8_t* packed, const float* scales, Out* y,
                          cordee::cpu::stream s) {
    cordee::detail::ops::check_byte_problem(p, k);
    correlation(p).run(samples, x, k, packed, scales, y, s);
  }
};

template <cordee::detail::ops::TileUnit Unit>
using tile_engine = byte_engine<
    cordee::detail::ops::byte_correlation_by_tiles<cordee::detail::ops::lanes<float>, Unit>>;

}  // namespace support
