// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/simd.hpp>

#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <class Real, int Lanes>
struct vector_case {
  using real = Real;
  static constexpr int V = Lanes;
};

template <class Number, int Lanes>
struct half_case {
  using number = Number;
  static constexpr int V = Lanes;
};
// One lane, a width without instructions of its own, a register.
#define HALF_WIDTHS                                                                  \
  half_case<half, 1>, half_case<half, lanes<float>>,                                 \
      half_case<bfloat, 4> FURTHER_TYPES(, half_case<half, 4>, half_case<bfloat, 1>, \
                                         half_case<bfloat, lanes<float>>)

/// Whether rounding V floats at a time gives N::nearest of each, NaN for NaN.
template <class N, int V>
bool rounds_as_nearest(const std::vector<float>& x) {
  REQUIRE(x.size() % V == 0);
  std::vector<N> q(x.size());
  for (std::size_t i = 0; i < x.size(); i += V)
    store<N, V>(q.data() + i, load<float, V>(x.data() + i));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same =
        std::isnan(x[i]) ? std::isnan(q[i].exact()) : q[i].bits == N::nearest(x[i]).bits;
    if (!same) {
      FAIL_CHECK("bits " << std::bit_cast<std::uint32_t>(x[i]) << " became " << q[i].bits);
      return false;
    }
  }
  return true;
}

}  // namespace

static_assert(lanes<float> == 2 * lanes<double> && lanes<float> * 4 == register_bytes);
static_assert(sizeof(vec<float, 4>) == 16 && sizeof(vec<double, lanes<double>>) == register_bytes);

TEST_CASE("simd: the name of the ISA matches its register width") {
  const bool is_widest = isa.starts_with("AVX-512") || isa == "SVE-512",
             is_wide = isa.starts_with("AVX") || isa == "SVE-256";
  CHECK(register_bytes == (is_widest ? 64 : is_wide ? 32 : 16));
#if defined(__AVX512F__)
  CHECK(isa.starts_with("AVX-512"));
#elif defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS >= 256 && !defined(__clang__)
  CHECK(isa == "SVE-" + std::to_string(__ARM_FEATURE_SVE_BITS));
#elif defined(__ARM_NEON)
  CHECK(isa.starts_with("NEON"));
#elif !defined(__AVX__)
  CHECK(isa == "128-bit vectors");
#endif
}

TEST_CASE_TEMPLATE("simd: load and store take any address and access V numbers", K,
                   vector_case<float, 1>, vector_case<float, 4>, vector_case<float, lanes<float>>,
                   vector_case<double, 1>, vector_case<double, 2>,
                   vector_case<double, lanes<double>>) {
  using Real = typename K::real;
  constexpr int V = K::V;
  std::vector<Real> from(3 * V + 3), to(3 * V + 3);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Real>(i + 1);
  for (std::size_t offset = 0; offset <= V + 1; ++offset) {
    to.assign(to.size(), Real{-1});
    store<Real, V>(to.data() + offset, load<Real, V>(from.data() + 1));
    for (std::size_t i = 0; i < to.size(); ++i)
      CHECK(to[i] ==
            (i >= offset && i < offset + V ? static_cast<Real>(i - offset + 2) : Real{-1}));
  }
}

TEST_CASE("simd: arithmetic and selection are element by element") {
  const double a[] = {1, -2, 3, -4}, b[] = {10, 20, 30, 40};
  const vec<double, 4> x = load<double, 4>(a), y = load<double, 4>(b), zero{};
  const vec<double, 4> z = (x < zero ? zero : x) + 2.0 * y;
  double out[4];
  store<double, 4>(out, z);
  CHECK(out[0] == 21);
  CHECK(out[1] == 40);
  CHECK(out[2] == 63);
  CHECK(out[3] == 80);
}

TEST_CASE_TEMPLATE("simd: loads convert all 65,536 numbers of 16 bits, and stores give them back",
                   K, HALF_WIDTHS) {
  using N = typename K::number;
  constexpr int V = K::V;
  std::vector<N> from(65536 + V), back(V + 2);
  for (std::uint32_t b = 0; b < 65536; ++b) from[b].bits = static_cast<std::uint16_t>(b);
  std::size_t wrong = 0;
  for (std::size_t first = 0; first < 65536; first += V) {
    float x[V];
    store<float, V>(x, load<N, V>(from.data() + first));
    back.assign(back.size(), N{0x1234});
    store<N, V>(back.data() + 1, load<float, V>(x));
    for (std::size_t k = 0; k < V; ++k) {
      const N q = from[first + k];
      const float exact = q.exact();
      if (std::isnan(exact))
        wrong += !std::isnan(x[k]) || std::signbit(x[k]) != std::signbit(exact) ||
                 !std::isnan(back[k + 1].exact());
      else
        wrong += std::bit_cast<std::uint32_t>(x[k]) != std::bit_cast<std::uint32_t>(exact) ||
                 back[k + 1].bits != q.bits;
    }
    wrong += back.front().bits != 0x1234 || back.back().bits != 0x1234;  // the memory around
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("simd: stores round every tie to even, and all exponents like nearest()", K,
                   HALF_WIDTHS) {
  using N = typename K::number;
  constexpr float largest = std::numeric_limits<float>::max();
  std::vector<float> x;
  for (std::uint32_t b = 0; b < 0x7fffu; ++b) {
    const float low = N{static_cast<std::uint16_t>(b)}.exact(),
                high = N{static_cast<std::uint16_t>(b + 1)}.exact();
    if (!std::isfinite(high)) continue;
    const float middle = low + (high - low) / 2;
    for (const float sign : {1.0f, -1.0f})
      for (const float y : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, largest)})
        x.push_back(sign * y);
  }
  for (std::uint32_t bits = 0; bits < 0xffff0000u; bits += 0x5fffu)
    x.push_back(std::bit_cast<float>(bits));
  for (const float y : {largest, std::numeric_limits<float>::infinity(), 65504.0f, 65519.996f,
                        65520.0f, std::numeric_limits<float>::denorm_min()})
    for (const float sign : {1.0f, -1.0f}) x.push_back(sign * y);
  for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u})
    x.push_back(std::bit_cast<float>(nan));
  while (x.size() % K::V != 0) x.push_back(0);
  CHECK(rounds_as_nearest<N, K::V>(x));
}

TEST_CASE("simd: numbers of a byte are stored as bytes") {
  constexpr int V = lanes<float>;
  for (int first = 0; first + V <= 256; ++first) {
    vec<std::int32_t, V> x;
    for (int v = 0; v < V; ++v) x[v] = 255 - first - v;
    std::uint8_t bytes[std::size_t{V + 2}] = {};
    store_narrowed<V>(bytes + 1, x);
    for (int v = 0; v < V; ++v) CHECK(bytes[v + 1] == 255 - first - v);
    CHECK(bytes[0] == 0);
    CHECK(bytes[V + 1] == 0);
  }
}
