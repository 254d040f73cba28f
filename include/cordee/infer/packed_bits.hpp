// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights of 4 or 2 bits as a file stores them: two or four a byte in two's complement, the first
// one in the lowest bits, zeros behind the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// What weights of b bits have as largest magnitude.
constexpr int largest_of_bits(int b) { return (1 << (b - 1)) - 1; }

constexpr std::size_t packed_bits_size(std::size_t n, int bits) {
  const auto each = static_cast<std::size_t>(8 / bits);
  return (n + each - 1) / each;
}

inline std::vector<std::uint8_t> pack_bits(std::span<const std::int8_t> weights, int bits) {
  std::vector<std::uint8_t> bytes(packed_bits_size(weights.size(), bits));
  const auto each = static_cast<std::size_t>(8 / bits);
  const int mask = (1 << bits) - 1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const int shift = bits * static_cast<int>(i % each);
    bytes[i / each] = static_cast<std::uint8_t>(bytes[i / each] | (weights[i] & mask) << shift);
  }
  return bytes;
}

/// n weights. Empty where bits behind the last one are set. Requires packed_bits_size(n, bits)
/// bytes.
inline std::optional<std::vector<std::int8_t>> unpack_bits(std::span<const std::uint8_t> bytes,
                                                           std::size_t n, int bits) {
  std::vector<std::int8_t> weights(n);
  const auto each = static_cast<std::size_t>(8 / bits);
  for (std::size_t i = 0; i < bytes.size() * each; ++i) {
    const auto high = static_cast<std::int8_t>(  // the weight in the highest bits
        bytes[i / each] << (8 - bits - bits * static_cast<int>(i % each)));
    const auto w = static_cast<std::int8_t>(high >> (8 - bits));
    if (i < n)
      weights[i] = w;
    else if (w != 0)
      return std::nullopt;
  }
  return weights;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
