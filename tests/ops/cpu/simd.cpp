// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/simd.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <class Real, int Lanes>
struct vector_case {
  using real = Real;
  static constexpr int V = Lanes;
};

}  // namespace

static_assert(lanes<float> == 2 * lanes<double> && lanes<float> * 4 == register_bytes);
static_assert(sizeof(vec<float, 4>) == 16 && sizeof(vec<double, lanes<double>>) == register_bytes);

TEST_CASE("simd: the name of the ISA matches its register width") {
  CHECK(register_bytes == (isa == "AVX-512" ? 64 : isa == "AVX" ? 32 : 16));
#if defined(__AVX512F__)
  CHECK(isa == "AVX-512");
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
