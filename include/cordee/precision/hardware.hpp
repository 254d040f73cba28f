// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Conversions by GPU instructions: one each, where integer arithmetic takes a dozen, which would
// limit kernels that are bound by memory. The same bits as on the host, except that a NaN loses its
// payload.
#pragma once

#include <cstdint>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::precision {

#if defined(__CUDA_ARCH__)
inline constexpr bool on_gpu = true;

__device__ inline std::uint16_t to_half(float x) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline float from_half(std::uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ inline std::uint16_t to_bfloat(float x) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#else
inline constexpr bool on_gpu = false;  // the functions are declared only
CORDEE_HOST_DEVICE std::uint16_t to_half(float);
CORDEE_HOST_DEVICE float from_half(std::uint16_t);
CORDEE_HOST_DEVICE std::uint16_t to_bfloat(float);
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::precision
