// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/cpu/direct_layers.hpp>

#include "tests/infer/blocked.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using namespace support;

namespace {

constexpr int V = detail::ops::lanes<float>;
using layers = direct_layers<V>;
using definition = integer_reference<>;

/// Calls run(part) for so many parts, the last first.
template <class F>
void run_parts(std::size_t count, const F& run) {
  for (std::size_t k = count; k-- > 0;) run(detail::core::equal_part{k, count});
}

}  // namespace

TEST_CASE("direct_layers: max pools, subsampling and means equal their definitions, in parts too") {
  for (const int channels : {1, 2, 3, 4, 5, 16, 35})
    for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u}) {
      const extent in{channels, 7, 6};
      const auto x = drawn<std::int32_t>(in.size(), 32, 2), blocked_x = blocked<V>(in, x);
      const detail::ops::max_pool_problem pool{in, 3, 2, 1};
      std::vector<std::int32_t> y(layers::size_of(pool.out())), expected(pool.out().size());
      run_parts(parts,
                [&](auto part) { layers::max_pool(pool, blocked_x.data(), y.data(), part); });
      definition::max_pool(pool, x.data(), expected.data());
      CHECK(plain<V>(pool.out(), y) == expected);

      const detail::ops::subsample_problem half{in, {channels + 6, 4, 3}, 2};
      y.assign(layers::size_of(half.out), std::int32_t{1});
      expected.resize(half.out.size());
      run_parts(parts,
                [&](auto part) { layers::subsample(half, blocked_x.data(), y.data(), part); });
      definition::subsample(half, x.data(), expected.data());
      CHECK(plain<V>(half.out, y) == expected);

      const auto wide = drawn<std::int32_t>(in.size(), 24, 3), blocked_wide = blocked<V>(in, wide);
      const extent out{channels, 1, 1};
      std::vector<std::int32_t> means(layers::size_of(out)), exact(out.size());
      run_parts(parts,
                [&](auto part) { layers::mean(in, blocked_wide.data(), means.data(), part); });
      definition::mean(in, wide.data(), exact.data());
      CHECK(plain<V>(out, means) == exact);
    }
}

TEST_CASE("direct_layers: the bytes of an image, in parts too") {
  for (const int channels : {1, 3, 5})
    for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u}) {
      const extent in{channels, 5, 7};
      const auto image = drawn<std::uint8_t>(in.size(), 8, 4),
                 table = drawn<std::uint8_t>(256 * in.size() / in.pixels(), 8, 5);
      std::vector<std::uint8_t> q(layers::size_of(in)), expected(in.size());
      run_parts(parts, [&](auto part) {
        layers::read_image(in, table.data(), image.data(), q.data(), part);
      });
      for (std::size_t i = 0; i < image.size(); ++i)
        expected[i] = table[i / in.pixels() * 256 + image[i]];
      CHECK(plain<V>(in, q) == expected);
    }
}
