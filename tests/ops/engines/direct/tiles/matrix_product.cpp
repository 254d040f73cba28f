// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// By Arm's instructions, elsewhere by what they compute.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/engines/direct/tiles/matrix_product.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr int V = lanes<float>;

/// n bytes, any bits or bf16 of magnitudes about 1.
std::vector<std::uint8_t> random_bytes(std::size_t n, std::uint64_t seed, bool bfloats) {
  random_sequence random(seed, purpose::test, 0, 0);
  std::vector<std::uint8_t> bytes(n);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.below(256));
  for (std::size_t i = 0; bfloats && i < n; i += 2) {
    const bfloat x = bfloat::nearest(static_cast<float>(4 * random.uniform() - 2));
    std::memcpy(&bytes[i], &x, sizeof x);
  }
  return bytes;
}

struct operands {
  explicit operands(bool bfloats)
      : x(random_bytes(16, 1, bfloats)), w(random_bytes(std::size_t{8} * V, 2, bfloats)) {
    std::memcpy(half, w.data(), sizeof half);
  }
  [[nodiscard]] channel_groups<V> pixels() const { return pixel_pair<V>(&x[0], &x[8]); }
  std::vector<std::uint8_t> x, w;  // (2, 8), (V, 8)
  channel_groups<V> half[2];
};

}  // namespace

TEST_CASE("matrix_product: sums of eight products of bytes, for each pixel and filter") {
  const operands in(false);
  const vec<std::int32_t, V> initial = [] {
    vec<std::int32_t, V> v{};
    for (int f = 0; f < V; ++f) v[f] = 1000 - 77 * f;
    return v;
  }();
  vec<std::int32_t, V> sum[2];
  join_pixels<std::int32_t, V>(initial, sum[0], sum[1]);
  for (int h = 0; h < 2; ++h)
    sum[h] = byte_matrix_product<V, byte_matrices>::add(sum[h], in.pixels(), in.half[h]);
  separate_pixels<std::int32_t, V>(sum[0], sum[1]);
  for (std::size_t p = 0; p < 2; ++p)
    for (int f = 0; f < V; ++f) {
      std::int32_t wanted = initial[f];
      for (std::size_t c = 0; c < 8; ++c)
        wanted +=
            in.x[8 * p + c] * static_cast<std::int8_t>(in.w[8 * static_cast<std::size_t>(f) + c]);
      CHECK(sum[p][f] == wanted);
    }
}

TEST_CASE(
    "matrix_product: products of bf16 have the bits of two dot products one after the other") {
  const operands in(true);
  vec<float, V> sum[2] = {};
  for (int h = 0; h < 2; ++h)
    sum[h] = bfloat_matrix_product<V, bfloat_matrices>::add(sum[h], adjacent_pixels<V>(in.x.data()),
                                                            in.half[h]);
  separate_pixels<float, V>(sum[0], sum[1]);
  for (std::size_t p = 0; p < 2; ++p) {
    vec<float, V> wanted{};
    for (std::size_t c = 0; c < 8; c += 4) {
      bfloat_pair x;
      bfloat_pairs<V> w{};
      std::memcpy(&x, &in.x[8 * p + c], sizeof x);
      for (int f = 0; f < V; ++f) {
        bfloat_pair pair;
        std::memcpy(&pair, &in.w[8 * static_cast<std::size_t>(f) + c], sizeof pair);
        w[f] = pair;
      }
      wanted = bfloat_dot<V, bfloat_matrices>::add(wanted, x, w);
    }
    for (int f = 0; f < V; ++f)
      if (bfloat_matrices)
        CHECK(sum[p][f] == wanted[f]);
      else
        CHECK(sum[p][f] == doctest::Approx(wanted[f]).epsilon(1e-6));
  }
}
