// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;
using detail::ops::packed_tensor;

namespace {

struct layer {
  convolution_problem p;
  int padded_channels, padded_filters;
  std::size_t master, packed;  // offsets
};

/// Convolutions with vectors between them: shorter than a chunk, longer, and with padding.
struct table_fixture {
  std::vector<layer> layers{{{{3, 8, 8}, 24, 7, 2, 3}, 8, 24, 0, 0},
                            {{{24, 8, 8}, 40, 3, 1, 1}, 24, 40, 4000, 0},
                            {{{40, 8, 8}, 1, 1, 1, 0}, 40, 8, 13000, 0},
                            {{{150, 8, 8}, 140, 1, 1, 0}, 152, 144, 13200, 0},
                            {{{500, 8, 8}, 2, 3, 1, 1}, 504, 8, 34500, 0}};
  std::vector<packed_tensor> table;
  std::size_t bytes = 0, plane_size = 43600;

  table_fixture() {
    for (layer& l : layers) {
      l.packed = bytes;
      auto t = detail::ops::packed_weights({l.p, l.padded_channels, l.padded_filters}, l.master,
                                           l.packed, false);
      t.gradient_is_packed = true;
      add(t, sizeof(half));
      const auto k = static_cast<std::size_t>(l.p.filters);
      add(detail::ops::packed_vector(l.master + l.p.weights() + 1, bytes, k, k + 5), 4);
    }
  }
  void add(const packed_tensor& t, std::size_t width) {
    table.push_back(table.empty() ? t : table.back().followed_by(t));
    bytes += (t.packed_size() * width + 255) / 256 * 256;
  }
  [[nodiscard]] std::vector<float> random_plane() const {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> plane(plane_size);
    for (float& x : plane) x = normal(random);
    return plane;
  }
};

}  // namespace

TEST_CASE("packed_table: one launch packs what each layer's packing does, padding included") {
  const table_fixture f;
  const auto plane = f.random_plane();
  const emulated::stream s(3);
  std::vector<std::byte> packed(f.bytes, std::byte{0xff}), expected(f.bytes, std::byte{0xff});
  pack_table(f.table.data(), f.table.size(), f.table.back(), plane.data(),
             reinterpret_cast<half*>(packed.data()), s);
  for (std::size_t k = 0; k < f.layers.size(); ++k) {
    const layer& l = f.layers[k];
    pack_krsc(l.p, l.padded_channels, l.padded_filters, plane.data() + l.master,
              reinterpret_cast<half*>(expected.data() + l.packed), s);
    const packed_tensor& v = f.table[2 * k + 1];
    std::vector<float> row(v.packed_size());
    std::copy_n(plane.data() + v.master, v.size(), row.data());
    std::memcpy(expected.data() + v.packed, row.data(), row.size() * sizeof(float));
  }
  CHECK(packed == expected);
}

TEST_CASE("packed_table: gradients are unpacked, added and unscaled as one after the other") {
  const table_fixture f;
  const emulated::stream s(3);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::byte> gradients(f.bytes);
  for (std::size_t i = 0; i < f.bytes / 2; ++i)
    reinterpret_cast<half*>(gradients.data())[i] = half::nearest(normal(random));
  const float factor = 0.37f;
  for (const auto mode : {write_mode::add, write_mode::overwrite})
    for (const float* scale : {static_cast<const float*>(nullptr), &factor})
      for (const auto& [first, last] : {std::pair{0, 9}, {1, 3}, {2, 2}, {5, 5}, {6, 6}, {8, 9}}) {
        auto plane = f.random_plane(), expected = plane;
        unpack_table(f.table.data(), f.table.size(), f.table[static_cast<std::size_t>(first)],
                     f.table[static_cast<std::size_t>(last)],
                     reinterpret_cast<const half*>(gradients.data()), plane.data(), scale, mode, s);
        for (int k = first; k <= last; ++k) {
          const packed_tensor& t = f.table[static_cast<std::size_t>(k)];
          const layer& l = f.layers[static_cast<std::size_t>(k / 2)];
          float* const at = expected.data() + t.master;
          if (k % 2 == 0)
            unpack_krsc(l.p, l.padded_channels, l.padded_filters,
                        reinterpret_cast<const half*>(gradients.data() + t.packed), at, mode, s);
          for (std::size_t i = 0; scale != nullptr && i < t.size(); ++i) at[i] *= factor;
        }
        CHECK(plane == expected);
      }
}
