// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers that tensor cores multiply, as what device/warp.hpp calls the words of them.
#pragma once

#include <concepts>
#include <cstdint>

#include <cordee/device/warp.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

namespace cordee::inline CORDEE_ABI::detail {

template <class N>
struct wmma_number {};
template <>
struct wmma_number<half> {
  using words = half_words;
  using weight = half;
};
template <>
struct wmma_number<bfloat> {
  using words = bfloat_words;
  using weight = bfloat;
};
template <>
struct wmma_number<std::uint8_t> {
  using words = byte_words;
  using weight = std::int8_t;
};

template <class N>
concept WmmaNumber = Narrow<N> && requires { typename wmma_number<N>::words; };

/// Numbers of one copy, 16 bytes, to which channels in memory are filled up.
template <class N>
inline constexpr int wmma_copy = 16 / static_cast<int>(sizeof(N));
template <class N>
constexpr int wmma_filled(int channels) {
  return (channels + wmma_copy<N> - 1) / wmma_copy<N> * wmma_copy<N>;
}

}  // namespace cordee::inline CORDEE_ABI::detail
