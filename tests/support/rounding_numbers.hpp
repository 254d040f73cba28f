// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on float as a compiler may change it, and how far that may move a result, for the
// bodies of optimizers (ops/segment_body.hpp):
//
//   fused      every product that is added or subtracted is not rounded before (a b + c by one fma)
//   bounded    a number, and a bound of its distance from the same number by other roundings:
//              d(a + b) = d(a) + d(b) + 2 u |a + b|,  d(a b) = |a| d(b) + |b| d(a) + 2 u |a b|, ...
//
// with u = 2^-24, since each of the two results is rounded once, by at most u of its size, and a
// product that is fused is not rounded at all. Terms of u^2 are left out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <span>

#include <cordee/core/segment.hpp>
#include <cordee/device/adl_base.hpp>
#include <cordee/ops/segment_body.hpp>
#include <cordee/optim/optimizer.hpp>

namespace support {

using namespace cordee;

struct fused {
  float x = 0;
  fused() = default;
  fused(float value) : x(value) {}  // NOLINT(google-explicit-constructor)
};
struct product {
  float a, b;
  operator fused() const { return rounded(); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] float rounded() const {
    volatile const float x = a * b;  // so that no compiler fuses it
    return x;
  }
};
inline product operator*(fused a, fused b) { return {a.x, b.x}; }
inline fused operator/(fused a, fused b) { return a.x / b.x; }
inline fused operator+(fused a, fused b) { return a.x + b.x; }
inline fused operator+(product p, fused c) { return std::fma(p.a, p.b, c.x); }
inline fused operator+(fused c, product p) { return p + c; }
inline fused operator+(product p, product q) { return p + fused(q); }
inline fused operator-(fused a, fused b) { return a.x - b.x; }
inline fused operator-(product p, fused c) { return std::fma(p.a, p.b, -c.x); }
inline fused operator-(fused c, product p) { return std::fma(-p.a, p.b, c.x); }
inline fused operator-(product p, product q) { return p - fused(q); }
inline fused operator-(fused a) { return -a.x; }

struct bounded {
  float x = 0;
  double d = 0;
  bounded() = default;
  bounded(float value) : x(value) {}  // NOLINT(google-explicit-constructor)
  /// Of a result that is rounded.
  bounded(float value, double distance)
      : x(value), d(distance + 2 * 0x1p-24 * std::abs(static_cast<double>(value))) {}
};
inline bounded operator+(bounded a, bounded b) { return {a.x + b.x, a.d + b.d}; }
inline bounded operator-(bounded a, bounded b) { return {a.x - b.x, a.d + b.d}; }
inline bounded operator-(bounded a) { return a.x = -a.x, a; }
inline bounded operator*(bounded a, bounded b) {
  return {a.x * b.x,
          std::abs(static_cast<double>(a.x)) * b.d + std::abs(static_cast<double>(b.x)) * a.d};
}
inline bounded operator/(bounded a, bounded b) {
  const double divisor = std::abs(static_cast<double>(b.x)), least = divisor - b.d;
  const float quotient = a.x / b.x;
  return {quotient, (a.d + std::abs(static_cast<double>(quotient)) * b.d) / least};
}

/// A stream whose passes over segments compute with `Number`.
template <class Number>
struct rounding_stream : cordee::detail::ops::adl_base {
  std::map<const float*, double>* distances = nullptr;  // of numbers in planes, if they are bounded

  [[nodiscard]] void* allocate(std::size_t size) const { return std::malloc(size); }
  void release(void* memory) const noexcept { std::free(memory); }
};
/// lane_ref on it.
template <class Number>
struct rounding_place {
  using number = Number;
  std::size_t i;
  const rounding_stream<Number>* s;

  [[nodiscard]] number operator()(const float* plane) const {
    number x(plane[i]);
    if constexpr (requires { x.d; }) x.d = (*s->distances)[plane + i];
    return x;
  }
  void put(float* plane, number x) const {
    plane[i] = x.x;
    if constexpr (requires { x.d; }) (*s->distances)[plane + i] = x.d;
  }
  static number zero() { return {}; }
  static number clamped(number x, float limit = cordee::detail::ops::half_max<float>) {
    x.x = std::clamp(x.x, -limit, limit);
    return x;
  }
  static number at_least(number x, float least) {
    x.x = std::max(x.x, least);
    return x;
  }
  static number root(number x) {
    const float root = std::sqrt(x.x);
    if constexpr (requires { x.d; }) {  // sqrt(x + d) - sqrt(x - d) over 2
      const double value = x.x;
      return {root, (std::sqrt(value + x.d) - std::sqrt(std::max(value - x.d, 0.0)))};
    } else {
      return root;
    }
  }
};
template <class Number>
struct rounding_device {
  using stream = rounding_stream<Number>;
  static constexpr bool host_memory = false;  // the step info is as in the memory of a GPU
};

template <class Real, class Number, class Body>
void segmented_for(rounding_stream<Number> s, std::span<const segment> table, const Body& body) {
  for (std::size_t k = 0; k < table.size(); ++k) {
    const auto f = cordee::detail::ops::body_for_segment(body, table[k].kind, k);
    const std::size_t first = table[k].offset - table.front().offset;
    for (std::size_t i = first; i < first + table[k].size; ++i) f(rounding_place<Number>{i, &s});
  }
}
template <class Number, class Op>
void launch_single(rounding_stream<Number>, const Op& op) {
  op(0);
}

}  // namespace support
