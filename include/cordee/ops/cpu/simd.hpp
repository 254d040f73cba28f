// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// SIMD registers, as the compiler's vector types.
//
// The width must equal the ISA's: GCC lowers wider vectors badly (ten times slower). It is a
// template argument wherever it is used, so that object files built for different ISAs define
// different symbols.
#pragma once

#include <string_view>
#include <utility>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
inline constexpr std::string_view isa = "AVX-512";
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
inline constexpr std::string_view isa = "AVX";
#else
inline constexpr int register_bytes = 16;
inline constexpr std::string_view isa = "128-bit vectors";
#endif

/// Numbers of type T that fit one register of this build's ISA.
template <class T>
inline constexpr int lanes = register_bytes / static_cast<int>(sizeof(T));

/// V numbers of type T; arithmetic is element by element. `unaligned` may have any address.
template <class T, int V>
struct vector_type {
  typedef T type __attribute__((vector_size(sizeof(T) * V)));
  typedef T unaligned __attribute__((vector_size(sizeof(T) * V), aligned(alignof(T)), may_alias));
};
template <class T, int V>
using vec = typename vector_type<T, V>::type;

template <class T, int V>
[[gnu::always_inline]] inline vec<T, V> load(const T* from) {
  return *reinterpret_cast<const typename vector_type<T, V>::unaligned*>(from);
}
template <class T, int V>
[[gnu::always_inline]] inline void store(T* to, vec<T, V> value) {
  *reinterpret_cast<typename vector_type<T, V>::unaligned*>(to) = value;
}

/// One step of a transposition: exchanges H lanes of every 2H between two registers.
template <int H, class T, int V, int... L>
[[gnu::always_inline]] inline void swap_lanes(vec<T, V>& a, vec<T, V>& b,
                                              std::integer_sequence<int, L...>) {
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)
  const vec<T, V> from_a = a, from_b = b;
  a = __builtin_shufflevector(from_a, from_b, ((L & H) != 0 ? V + L - H : L)...);
  b = __builtin_shufflevector(from_a, from_b, ((L & H) != 0 ? V + L : L + H)...);
#else
  for (const int l : {L...})
    if ((l & H) == 0) std::swap(a[l + H], b[l]);
#endif
}

/// Transposes a square, r[i][k] <-> r[k][i]: V registers, V a power of two.
template <class T, int V, int H = 1>
[[gnu::always_inline]] inline void transpose(vec<T, V>* r) {
  if constexpr (H < V) {
#pragma GCC unroll 16
    for (int i = 0; i < V; ++i)
      if ((i & H) == 0) swap_lanes<H, T, V>(r[i], r[i + H], std::make_integer_sequence<int, V>{});
    transpose<T, V, 2 * H>(r);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
