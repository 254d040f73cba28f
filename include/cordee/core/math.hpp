// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every trainer uses of <cmath>, which since C++17 also defines Bessel functions, elliptic
// integrals and more, 3 % of a minimal trainer (docs/compile_time.md). The compilers' built-in
// functions are those that <cmath> calls; CUDA's compiler includes <cmath> in any case.
#pragma once

#include <concepts>

#include <cordee/core/config.hpp>

#ifdef __CUDACC__

#include <cmath>

namespace cordee::inline CORDEE_ABI::detail::core {

using std::abs, std::ceil, std::cos, std::exp, std::floor, std::fma, std::isfinite, std::isnan,
    std::llround, std::log, std::log1p, std::pow, std::sqrt;

}  // namespace cordee::inline CORDEE_ABI::detail::core

#else

namespace cordee::inline CORDEE_ABI::detail::core {

constexpr double abs(double x) { return __builtin_fabs(x); }
constexpr bool isfinite(std::floating_point auto x) { return __builtin_isfinite(x); }
constexpr bool isnan(std::floating_point auto x) { return __builtin_isnan(x); }

inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline double exp(double x) { return __builtin_exp(x); }
inline double log(double x) { return __builtin_log(x); }
inline double log1p(double x) { return __builtin_log1p(x); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline double cos(double x) { return __builtin_cos(x); }
inline double ceil(double x) { return __builtin_ceil(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline long long llround(double x) { return __builtin_llround(x); }

}  // namespace cordee::inline CORDEE_ABI::detail::core

#endif
