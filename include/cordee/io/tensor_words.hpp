// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the writer and the reader of tensor files (safetensors.hpp) must agree on: how wide a number
// is, how many a shape holds, and that no name occurs twice.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Bytes of one number, 0 if there is no such type.
inline std::size_t dtype_size(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
      {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
      {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, size] : sizes)
    if (name == dtype) return size;
  return 0;
}

/// start x shape[0] x shape[1] x …; false if that overflows.
inline bool multiply_up(std::size_t start, std::span<const std::size_t> shape, std::size_t& out) {
  out = start;
  for (const std::size_t n : shape) {
    if (n != 0 && out > std::numeric_limits<std::size_t>::max() / n) return false;
    out *= n;
  }
  return true;
}

inline constexpr std::string_view metadata_name = "__metadata__";

/// Two keys and a place: what tensors are sorted by. One type, since each costs a sort to compile.
using sort_key = std::array<std::size_t, 3>;

/// A name that occurs twice, if there is one. A template, as what sorts and grows is in all of
/// this: programs that neither read nor write a tensor file do not compile it.
template <class Names = std::vector<std::string_view>>
std::optional<std::string_view> repeated(Names names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
