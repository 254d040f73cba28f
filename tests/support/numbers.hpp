// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Vectors of any type of numbers from and to doubles, and the error of one rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <vector>

#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/number.hpp>

namespace support {

using namespace cordee;
using detail::precision::rounded;
using detail::precision::wide;
using detail::precision::widened;

/// A number, or an integer, whose conversion is exact.
template <class N>
double to_double(N x) {
  if constexpr (Number<N>)
    return static_cast<double>(widened(x));
  else
    return static_cast<double>(x);
}
template <class N>
N to_number(double x) {
  if constexpr (Number<N>)
    return rounded<N>(static_cast<wide<N>>(x));
  else
    return static_cast<N>(x);
}
template <Number N>
std::vector<double> to_doubles(const std::vector<N>& v) {
  std::vector<double> out;
  for (const N x : v) out.push_back(to_double(x));
  return out;
}
template <Number N>
std::vector<N> to_numbers(const std::vector<double>& v) {
  std::vector<N> out;
  for (const double x : v) out.push_back(to_number<N>(x));
  return out;
}

/// The largest error of storing x as N, beyond wide<N>: half a unit in the last place, 2^-p |x| for
/// a significand of p bits, or half the smallest subnormal.
template <Number N>
double storage_error(double x) {
  if constexpr (std::same_as<N, cordee::half>) return std::max(0x1p-11 * std::abs(x), 0x1p-25);
  if constexpr (std::same_as<N, bfloat>) return std::max(0x1p-8 * std::abs(x), 0x1p-134);
  return 0;
}

}  // namespace support
