// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;
using detail::ops::packed_tensor;

TEST_CASE("quantized_table: two launches quantize and pack what each layer's do, bit for bit") {
  // Filters are read whole, and in parts of 256 channels of 3 x 3 or 2,048 of 1 x 1; the last
  // windows have more taps than a part has channels.
  const std::vector<convolution_problem> layers{{{3, 8, 8}, 24, 7, 2, 3},
                                                {{300, 8, 8}, 20, 3, 1, 1},
                                                {{2100, 8, 8}, 5, 1, 1, 0},
                                                {{17, 8, 8}, 33, 15, 1, 7}};
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> plane;
  std::vector<packed_tensor> table;
  std::size_t bytes = 0;
  const auto reserve = [&](std::size_t n) {
    const std::size_t offset = bytes;
    bytes += (n + 255) / 256 * 256;
    return offset;
  };
  const auto add = [&](const packed_tensor& t) {
    table.push_back(table.empty() ? t : table.back().followed_by(t));
  };
  for (const convolution_problem& p : layers) {
    const std::size_t master = plane.size() + 3, filters = static_cast<std::size_t>(p.filters);
    const std::size_t packed = reserve(2 * tensor_core::packed_dequantized_size(p));
    const std::size_t q = reserve(tensor_core::packed_bytes(p)), scales = reserve(4 * filters);
    add(detail::ops::packed_quantized_weights(
        {p, tensor_core::block<float>(p.in.channels), tensor_core::block<float>(p.filters)}, master,
        packed, q, scales));
    plane.resize(master + p.weights());
    for (float& x : std::span(plane).subspan(master)) x = normal(random);
    add(detail::ops::packed_vector(plane.size(), reserve(4 * 5), 4, 5));
    plane.insert(plane.end(), {1, 2, 3, 4});
  }
  // A filter of zeros, one with a NaN and one with an infinity.
  const std::size_t first = table[2].master, filter = 300 * 9;
  std::fill_n(plane.begin() + static_cast<std::ptrdiff_t>(first), filter, 0.0f);
  plane[first + filter + 7] = std::numeric_limits<float>::quiet_NaN();
  plane[first + 2 * filter + 2000] = -std::numeric_limits<float>::infinity();

  const emulated::stream s(3);
  std::vector<std::byte> packed(bytes, std::byte{0xff}), expected = packed;
  pack_quantized_table(table.data(), table.size(), table.back(), plane.data(),
                       reinterpret_cast<bfloat*>(packed.data()), s);
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const convolution_problem& p = layers[k];
    const packed_tensor& t = table[2 * k];
    const auto filters = static_cast<std::size_t>(p.filters);
    std::vector<std::int8_t> q(p.weights());
    std::vector<float> dequantized(p.weights());
    quantize_filters(filters, p.weights() / filters, plane.data() + t.master, q.data(),
                     dequantized.data(), reinterpret_cast<float*>(expected.data() + t.scales), s);
    tensor_core::pack_bytes(p, q.data(), reinterpret_cast<std::int8_t*>(expected.data() + t.bytes),
                            s);
    tensor_core::pack_dequantized(p, dequantized.data(),
                                  reinterpret_cast<bfloat*>(expected.data() + t.packed), s);
    const float vector[5] = {1, 2, 3, 4, 0};
    std::memcpy(expected.data() + table[2 * k + 1].packed, vector, sizeof(vector));
  }
  CHECK(packed == expected);
}
