// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a convolution of bytes from floats or bytes to sums or floats needs of each filter.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// For each filter: the initial value of its sums, and their scale.
struct filter_terms {
  const std::int32_t* initial;  // (K/V, V)
  const float* scales;          // (K/V, V)
};

/// Memory of one thread for them.
class filter_terms_memory {
 public:
  /// The terms of `filters` filters, padded to `padded`: minus the zero point times `sums`, of each
  /// filter's weights; and, where Out is float, its scale. The others' scales are zero.
  template <ByteConvolutionOutput Out>
  filter_terms of(const affine_quantizer<float>& k, std::size_t filters, std::size_t padded,
                  const std::int8_t* sums,  // (padded), 4 bytes each
                  const float* scales) {    // (filters)
    std::int32_t* const initial = initial_.reserve(padded);
    float* const all_scales = scales_.reserve(padded);
    for (std::size_t f = 0; f < padded; ++f) {
      std::int32_t sum;
      std::memcpy(&sum, sums + 4 * f, 4);
      initial[f] = -k.zero_point * sum;
      all_scales[f] = std::same_as<Out, float> && f < filters ? k.scale * scales[f] : 0;
    }
    return {initial, all_scales};
  }

 private:
  scratch<std::int32_t> initial_;
  scratch<float> scales_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
