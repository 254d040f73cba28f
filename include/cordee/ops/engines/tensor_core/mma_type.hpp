// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers that tensor cores multiply: for each activation type the mma instruction and the type
// of the weights.
#pragma once

#include <concepts>
#include <cstdint>

#include <cordee/device/warp.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class N>
struct mma_type {};
template <>
struct mma_type<half> {
  using mma = device::mma_f16;
  using weight = half;
};
template <>
struct mma_type<bfloat> {
  using mma = device::mma_bf16;
  using weight = bfloat;
};
template <>
struct mma_type<std::uint8_t> {
  using mma = device::mma_u8s8;
  using weight = std::int8_t;
};

template <class N>
concept TensorCoreNumber = precision::StorageOnly<N> && requires { typename mma_type<N>::mma; };

/// Numbers in 16 bytes, the unit of asynchronous copies.
template <class N>
inline constexpr int numbers_per_copy = 16 / static_cast<int>(sizeof(N));
/// Channels padded to whole copies, as they lie in memory.
template <class N>
constexpr int tensor_core_channels(int channels) {
  return (channels + numbers_per_copy<N> - 1) / numbers_per_copy<N> * numbers_per_copy<N>;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
