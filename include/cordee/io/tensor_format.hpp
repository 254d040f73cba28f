// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format of named tensors: what its writer (save_tensors.hpp) and its reader
// (tensor_file.hpp) share.
//
//   8 bytes   n, little-endian
//   n bytes   {"name": {"dtype": "F32", "shape": [64, 3, 7, 7], "data_offsets": [begin, end]}, …,
//              "__metadata__": {"key": "value", …} or null}, padded with spaces to a multiple of 8
//   the rest  the numbers, little-endian, row-major, without holes
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

static_assert(std::endian::native == std::endian::little,
              "tensor files are little-endian and are copied to and from memory: a big-endian host "
              "would have to swap bytes");

/// Keys and values in the order of the file.
using tensor_metadata = std::vector<std::pair<std::string, std::string>>;

/// Bits of one element, 0 for a type that safetensors 0.8 does not have.
inline std::size_t dtype_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"F64", 64},        {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"I64", 64},
      {"I32", 32},        {"I16", 16},        {"I8", 8},      {"U64", 64},    {"U32", 32},
      {"U16", 16},        {"U8", 8},          {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"C64", 64},    {"F6_E2M3", 6},
      {"F6_E3M2", 6},     {"F4", 4}};
  for (const auto& [name, bits] : sizes)
    if (name == dtype) return bits;
  return 0;
}
/// Bytes of one element; 0 for an unknown type, and for one of fewer bits.
inline std::size_t dtype_size(std::string_view dtype) { return dtype_bits(dtype) / 8; }

/// The type of tensors of integers T in a file.
template <std::integral T>
constexpr std::string_view integer_dtype() {
  constexpr std::string_view names[] = {"I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"};
  constexpr int width = std::bit_width(sizeof(T)) - 1;
  return names[width + (std::is_unsigned_v<T> ? 4 : 0)];
}

/// Elements of F16 (IEEE 754 binary16) and BF16 (the upper half of a float) in a file. io/ includes
/// no precision: these only read, one number at a time.
struct stored_f16 {
  std::uint16_t bits;
  explicit operator float() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float magnitude =
        exponent == 31  ? (fraction == 0 ? infinity : std::numeric_limits<float>::quiet_NaN())
        : exponent == 0 ? core::ldexp(static_cast<float>(fraction), -24)
                        : core::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    return bits >> 15 != 0 ? -magnitude : magnitude;
  }
};
struct stored_bf16 {
  std::uint16_t bits;
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// Whether elements of this type are read as floating-point numbers.
inline bool is_floating_dtype(std::string_view dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "F16" || dtype == "BF16";
}

/// out = start x shape[0] x shape[1] x …; returns false on overflow.
inline bool checked_product(std::size_t start, std::span<const std::size_t> shape,
                            std::size_t& out) {
  out = start;
  for (const std::size_t n : shape) {
    if (n != 0 && out > std::numeric_limits<std::size_t>::max() / n) return false;
    out *= n;
  }
  return true;
}

inline constexpr std::string_view metadata_name = "__metadata__";

/// Two keys and an index. One type for all sorts, since each type costs an instantiation of sort.
using sort_key = std::array<std::size_t, 3>;

/// A name that occurs twice, if any. A template, like everything here that sorts or grows, so that
/// programs without tensor files do not compile it.
template <class Names = std::vector<std::string_view>>
std::optional<std::string_view> find_duplicate(Names names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

/// Throws error for what torch.save writes (.pt, .pth): a zip archive of pickles or, before PyTorch
/// 1.6, a pickle. As a length of safetensors' header such bytes exceed the largest.
void expect_not_pickled(const std::convertible_to<std::string> auto& path,
                        std::span<const std::uint8_t> first_bytes) {
  const auto begins_with = [&](std::initializer_list<std::uint8_t> bytes) {
    return first_bytes.size() >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), first_bytes.begin());
  };
  if (begins_with({'P', 'K', 3, 4}) || begins_with({0x80, 2, 0x8a, 10}))
    throw error(concat(path,
                       ": a file of torch.save, which is pickled Python; convert it: python3 -c ",
                       "\"import torch, safetensors.torch as s; s.save_file(torch.load('", path,
                       "', map_location='cpu', weights_only=True), 'weights.safetensors')\""));
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
