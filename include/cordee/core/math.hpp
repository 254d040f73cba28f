// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the umbrella uses of <cmath>, which since C++17 also defines Bessel functions, elliptic
// integrals and more (docs/compile_time.md). The compilers' built-in
// functions are those that <cmath> calls; CUDA's compiler includes <cmath> in any case.
#pragma once

#include <concepts>

#include <cordee/core/config.hpp>

#ifdef __CUDACC__

#include <cmath>

namespace cordee::inline CORDEE_ABI::detail::core {

using std::abs, std::ceil, std::copysign, std::cos, std::erfc, std::exp, std::expm1, std::floor,
    std::fma, std::fmax, std::hypot, std::isfinite, std::isnan, std::ldexp, std::llround, std::log,
    std::log10, std::log1p, std::nearbyint, std::pow, std::signbit, std::sin, std::sqrt;

}  // namespace cordee::inline CORDEE_ABI::detail::core

#else

namespace cordee::inline CORDEE_ABI::detail::core {

constexpr float abs(float x) { return __builtin_fabsf(x); }
constexpr double abs(double x) { return __builtin_fabs(x); }
constexpr bool isfinite(std::floating_point auto x) { return __builtin_isfinite(x); }
constexpr bool isnan(std::floating_point auto x) { return __builtin_isnan(x); }
constexpr bool signbit(std::floating_point auto x) { return __builtin_signbit(x) != 0; }

inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline float exp(float x) { return __builtin_expf(x); }
inline double exp(double x) { return __builtin_exp(x); }
inline float log(float x) { return __builtin_logf(x); }
inline double log(double x) { return __builtin_log(x); }
inline double log10(double x) { return __builtin_log10(x); }
inline float log1p(float x) { return __builtin_log1pf(x); }
inline double log1p(double x) { return __builtin_log1p(x); }
inline double erfc(double x) { return __builtin_erfc(x); }
inline double expm1(double x) { return __builtin_expm1(x); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline double cos(double x) { return __builtin_cos(x); }
inline double sin(double x) { return __builtin_sin(x); }
inline double hypot(double x, double y) { return __builtin_hypot(x, y); }
inline double ceil(double x) { return __builtin_ceil(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline float nearbyint(float x) { return __builtin_nearbyintf(x); }
inline double nearbyint(double x) { return __builtin_nearbyint(x); }
inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
inline double fmax(double x, double y) { return __builtin_fmax(x, y); }
inline float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
inline double ldexp(double x, int exponent) { return __builtin_ldexp(x, exponent); }
inline long long llround(double x) { return __builtin_llround(x); }

}  // namespace cordee::inline CORDEE_ABI::detail::core

#endif
