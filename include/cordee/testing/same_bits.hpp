// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Comparison of numbers by their bits: a NaN equals itself, 0 and -0 differ.
#pragma once

#include <cstring>
#include <span>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Whether two numbers have the same bits.
template <class T>
  requires std::is_arithmetic_v<T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Same, for two contiguous ranges of numbers (vectors, arrays, spans, `span_on<T, cpu>`); ranges
/// of different lengths differ.
template <class A, class B>
  requires requires(const A& a, const B& b) {
    std::span(a);
    std::span(b);
  }
bool same_bits(const A& a, const B& b) {
  const std::span x(a);
  const std::span y(b);
  static_assert(std::is_same_v<typename decltype(x)::value_type, typename decltype(y)::value_type>,
                "same_bits: both ranges must hold numbers of one type");
  static_assert(std::is_arithmetic_v<typename decltype(x)::value_type>,
                "same_bits: numbers only, other types may have padding");
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size_bytes()) == 0);
}

}  // namespace cordee::inline CORDEE_ABI
