// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// By Arm's instruction, elsewhere by what it computes.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/engines/direct/int8/byte_correlation.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <class T>
std::vector<T> random_bytes(std::size_t n, std::uint64_t seed, int low) {
  random_sequence random(seed, purpose::test, 0, 0);
  std::vector<T> bytes(n);
  for (T& b : bytes) b = static_cast<T>(low + static_cast<int>(random.below(256)));
  return bytes;
}

template <int V, class Products>
std::vector<std::int32_t> sums_by(const convolution_problem& p, const std::vector<std::uint8_t>& x,
                                  const std::vector<std::int8_t>& weights) {
  const byte_correlation_by<V, Products> kernel(p);
  std::vector<std::int8_t> packed(kernel.packed_size());
  kernel.pack(weights.data(), packed.data());
  std::vector<std::int32_t> y(2 * sample_size(p.out(), channel_block_size<V>(p.filters)));
  const cpu device(1);
  const auto stream = device.make_stream();
  kernel.run(2, x.data(), affine_quantizer<float>{.scale = 1, .zero_point = 77}, packed.data(),
             nullptr, y.data(), stream);
  return y;
}

/// The same sums as those of four products, which tests/ops/convolution_bytes.cpp has defined.
template <int V, bool Native>
void check(const convolution_problem& p) {
  CAPTURE(V);
  CAPTURE(p.in.channels);
  CAPTURE(p.in.width);
  CAPTURE(p.filters);
  CAPTURE(p.window);
  CAPTURE(p.stride);
  const auto x =
      random_bytes<std::uint8_t>(2 * sample_size(p.in, channel_block_size<V>(p.in.channels)), 1, 0);
  const auto weights = random_bytes<std::int8_t>(p.weights(), 2, -128);
  CHECK(sums_by<V, matrix_products<Native>>(p, x, weights) ==
        sums_by<V, byte_products<false>>(p, x, weights));
}
template <int V, bool Native>
void check_shapes() {
  for (const int width : {1, 2, 3, 4, 7, 8, 15, 16, 17, 33})
    for (const int filters : {V, 3 * V + 1}) {
      check<V, Native>({{3 * V, 2, width}, filters, 1, 1, 0});  // an odd number of blocks
      check<V, Native>({{2 * V, 2, width}, filters, 3, 1, 1});
      check<V, Native>({{V, 3, width}, filters, 3, 2, 1});
    }
  for (const int channels : {1, 2, 3}) check<V, Native>({{channels, 5, 9}, 2 * V, 5, 2, 2});
}

}  // namespace

TEST_CASE("byte_matrix_tile: the sums of every layer are those of dot products") {
  check_shapes<4, byte_matrices && lanes<float> == 4>();
  // Registers wider than this build's have no ABI.
  if constexpr (lanes<float> >= 8) check_shapes<8, byte_matrices && lanes<float> == 8>();
  if constexpr (byte_matrices && lanes<float> == 16) check_shapes<16, true>();
}
