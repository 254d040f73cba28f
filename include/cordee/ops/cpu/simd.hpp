// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// SIMD registers, as the compiler's vector types. Numbers of 16 bits are floats in a register: they
// are converted when they are loaded and rounded when they are stored.
//
// The width must equal the ISA's: GCC lowers wider vectors badly (ten times slower). It is in the
// name of the ABI namespace (core/config.hpp), so that object files built for different widths
// define different symbols.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include <cordee/core/config.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)
inline constexpr std::string_view isa = "AVX-512 with AMX";
#elif CORDEE_ABI_BFLOAT_DOTS
inline constexpr std::string_view isa = "AVX-512 with BF16";
#else
inline constexpr std::string_view isa = "AVX-512";
#endif
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
#if defined(__AVX2__)
inline constexpr std::string_view isa = "AVX2";
#else
inline constexpr std::string_view isa = "AVX";
#endif
#elif CORDEE_ABI_SVE_BITS == 512
inline constexpr int register_bytes = 64;
inline constexpr std::string_view isa = "SVE-512";
#elif CORDEE_ABI_SVE_BITS == 256
inline constexpr int register_bytes = 32;
inline constexpr std::string_view isa = "SVE-256";
#elif defined(__ARM_NEON)
inline constexpr int register_bytes = 16;
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
inline constexpr std::string_view isa = "NEON with BF16";
#else
inline constexpr std::string_view isa = "NEON";
#endif
#else
inline constexpr int register_bytes = 16;
inline constexpr std::string_view isa = "128-bit vectors";
#endif

/// Vector registers of this build's ISA.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int register_count = 32;
#else
inline constexpr int register_count = 16;
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
/// Numbers of 16 bits have no register of their own: their load and store are below.
template <precision::StorageOnly N, int V>
struct vector_type<N, V> {};
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

/// Stores numbers within 0 .. 255 as bytes. With AVX2 alone g++ 12 converts them one by one.
template <int V>
[[gnu::always_inline]] inline void store_narrowed(std::uint8_t* to, vec<std::int32_t, V> x) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (V == 8) {
    vec<std::int32_t, 4> bytes;
    __asm__(
        "vextracti128 $1, %1, %0\n\t"
        "vpackssdw %0, %x1, %0\n\t"
        "vpackuswb %0, %0, %0"
        : "=&x"(bytes)
        : "x"(x));
    std::memcpy(to, &bytes, V);
    return;
  }
#endif
  store<std::uint8_t, V>(to, __builtin_convertvector(x, vec<std::uint8_t, V>));
}

/// A store past the caches, where the ISA has one, for numbers that are not read soon. Requires an
/// address aligned to the register, and stream_fence() before another thread reads them.
template <class T, int V>
[[gnu::always_inline]] inline void stream(T* to, vec<T, V> value) {
#if defined(__AVX__)
  asm volatile("vmovntps %1, %0" : "=m"(*reinterpret_cast<vec<T, V>*>(to)) : "v"(value));
#elif defined(__SSE2__)
  asm volatile("movntps %1, %0" : "=m"(*reinterpret_cast<vec<T, V>*>(to)) : "x"(value));
#else
  store<T, V>(to, value);
#endif
}
inline void stream_fence() {
#if defined(__SSE2__)
  asm volatile("sfence" ::: "memory");
#endif
}

/// The bits of a register as another type of the same size.
template <class To, class From>
[[gnu::always_inline]] inline To register_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// N::exact and N::nearest of V numbers: the same bits, except that a signalling NaN may become
/// quiet. The integer arithmetic is that of precision/bf16.hpp and precision/fp16.hpp.
template <precision::StorageOnly N, int V>
struct lane_conversion {
  [[gnu::always_inline]] static vec<float, V> widened(const N* from) {
    vec<float, V> x{};
    for (int k = 0; k < V; ++k) x[k] = from[k].exact();
    return x;
  }
  [[gnu::always_inline]] static void round_to(N* to, vec<float, V> x) {
    for (int k = 0; k < V; ++k) to[k] = N::nearest(x[k]);
  }
};

template <int V>
struct lane_conversion<bfloat, V> {
  using words = vec<std::uint32_t, V>;
  using shorts = typename vector_type<std::uint16_t, V>::unaligned;

  [[gnu::always_inline]] static vec<float, V> widened(const bfloat* from) {
    const words bits =
        __builtin_convertvector(*reinterpret_cast<const shorts*>(&from->bits), words);
    return register_cast<vec<float, V>>(bits << 16);
  }
  [[gnu::always_inline]] static void round_to(bfloat* to, vec<float, V> x) {
    const words bits = rounded(x) >> 16;
    *reinterpret_cast<shorts*>(&to->bits) = __builtin_convertvector(bits, vec<std::uint16_t, V>);
  }
  /// Words of two numbers: those of `low` in the lower halves, first in memory.
  [[gnu::always_inline]] static words pairs(vec<float, V> low, vec<float, V> high) {
    return rounded(low) >> 16 | (rounded(high) & 0xffff0000u);
  }

 private:
  /// In the upper halves; the lower ones hold anything.
  [[gnu::always_inline]] static words rounded(vec<float, V> x) {
    const words b = register_cast<words>(x);
    const words number = b + 0x7fffu + (b >> 16 & 1u), nan = b | 0x400000u;
    return x != x ? nan : number;
  }
};

#if defined(__F16C__)
/// Whether one instruction converts V numbers.
template <int V>
inline constexpr bool has_half_conversion = V >= 8 && V == lanes<float>;

template <int V>
[[gnu::always_inline]] inline vec<float, V> float_of_half(vec<std::uint16_t, V> q) {
  vec<float, V> x;
  asm("vcvtph2ps %1, %0" : "=v"(x) : "v"(q));
  return x;
}
template <int V>
[[gnu::always_inline]] inline vec<std::uint16_t, V> half_of_float(vec<float, V> x) {
  vec<std::uint16_t, V> q;
  asm("vcvtps2ph $0, %1, %0" : "=v"(q) : "v"(x));  // $0: to nearest, ties to even
  return q;
}
#else
template <int V>
inline constexpr bool has_half_conversion = false;  // the functions are declared only

template <int V>
vec<float, V> float_of_half(vec<std::uint16_t, V>);
template <int V>
vec<std::uint16_t, V> half_of_float(vec<float, V>);
#endif

template <int V>
struct lane_conversion<half, V> {
  using words = vec<std::uint32_t, V>;
  using floats = vec<float, V>;
  using shorts = typename vector_type<std::uint16_t, V>::unaligned;

  [[gnu::always_inline]] static floats widened(const half* from) {
    const vec<std::uint16_t, V> q = *reinterpret_cast<const shorts*>(&from->bits);
    if constexpr (has_half_conversion<V>) return float_of_half<V>(q);
    const words bits = __builtin_convertvector(q, words), a = bits & 0x7fffu;
    const words normal = (a << 13) + 0x38000000u, unbounded = normal + 0x38000000u;
    const floats tiny = register_cast<floats>(0x38800000u + (a << 13 & 0x7fffffu)) - 0x1p-14f;
    const words bounded = a < 0x400u ? register_cast<words>(tiny) : normal;
    return register_cast<floats>((bits & 0x8000u) << 16 | (a >= 0x7c00u ? unbounded : bounded));
  }
  [[gnu::always_inline]] static void round_to(half* to, floats x) {
    shorts* const address = reinterpret_cast<shorts*>(&to->bits);
    if constexpr (has_half_conversion<V>) {
      *address = half_of_float<V>(x);
      return;
    }
    const words b = register_cast<words>(x), a = b & 0x7fffffffu, zero{};
    const words normal = (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13;
    const words small = a < 0x38800000u ? a : zero;
    const words subnormal = register_cast<words>(register_cast<floats>(small) + 0.5f) - 0x3f000000u;
    const words payload = a >> 13 & 0x3ffu, nan = payload | 0x7e00u;
    const words finite = a < 0x38800000u ? subnormal : normal;
    const words number = a >= 0x477ff000u ? zero + 0x7c00u : finite;
    const words bits = (b >> 16 & 0x8000u) | (a > 0x7f800000u ? nan : number);
    *address = __builtin_convertvector(bits, vec<std::uint16_t, V>);
  }
};

template <precision::StorageOnly N, int V>
[[gnu::always_inline]] inline vec<float, V> load(const N* from) {
  return lane_conversion<N, V>::widened(from);
}
/// Rounds to nearest, ties to even.
template <precision::StorageOnly N, int V>
[[gnu::always_inline]] inline void store(N* to, vec<float, V> value) {
  lane_conversion<N, V>::round_to(to, value);
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
