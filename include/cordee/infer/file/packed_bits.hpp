// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integers of so many bits each as a file stores them: one after another without gaps, signed ones
// in two's complement, the first one in the lowest bits of the first byte, zeros behind the last
// one. Of 4 or 2 bits they are two or four a byte.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// What weights of b bits have as largest magnitude.
constexpr int largest_of_bits(int b) { return (1 << (b - 1)) - 1; }

/// The fewest bits of two's complement that hold x, at least one.
constexpr int signed_width(std::int64_t x) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x < 0 ? ~x : x))) + 1;
}

/// Bytes of n numbers. Requires n below 2^57.
constexpr std::size_t packed_bits_size(std::size_t n, int bits) {
  return (n * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Requires numbers that 0 to 64 bits hold.
template <std::integral T>
std::vector<std::uint8_t> pack_bits(std::span<const T> numbers, int bits) {
  std::vector<std::uint8_t> bytes(packed_bits_size(numbers.size(), bits));
  std::size_t at = 0;  // in bits
  for (const T number : numbers) {
    auto rest = static_cast<std::uint64_t>(number);  // two's complement
    for (int left = bits; left > 0;) {
      const int first = static_cast<int>(at % 8), count = std::min(8 - first, left);
      const auto part = static_cast<unsigned>(rest & ((1U << count) - 1)) << first;
      bytes[at / 8] = static_cast<std::uint8_t>(bytes[at / 8] | part);
      rest >>= count;
      left -= count;
      at += static_cast<std::size_t>(count);
    }
  }
  return bytes;
}

/// n numbers. Empty where bits behind the last one are set. Requires packed_bits_size(n, bits)
/// bytes, and 0 to as many bits as T has.
template <std::integral T>
std::optional<std::vector<T>> unpack_bits(std::span<const std::uint8_t> bytes, std::size_t n,
                                          int bits) {
  std::vector<T> numbers(n);
  std::size_t at = 0;  // in bits
  for (T& number : numbers) {
    std::uint64_t value = 0;
    for (int done = 0; done < bits;) {
      const int first = static_cast<int>(at % 8), count = std::min(8 - first, bits - done);
      const unsigned part = unsigned{bytes[at / 8]} >> first & ((1U << count) - 1);
      value |= std::uint64_t{part} << done;
      done += count;
      at += static_cast<std::size_t>(count);
    }
    if (std::signed_integral<T> && bits > 0 && value >> (bits - 1) != 0)
      value |= std::numeric_limits<std::uint64_t>::max() << (bits - 1);  // the sign
    number = static_cast<T>(value);
  }
  if (at % 8 != 0 && bytes[at / 8] >> at % 8 != 0) return std::nullopt;
  return numbers;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
