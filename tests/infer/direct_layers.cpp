// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/direct_layers.hpp>

#include "tests/infer/blocked.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using namespace support;

namespace {

constexpr int V = detail::ops::lanes<float>;
using layers = direct_layers<V>;
using definition = integer_reference<>;

}  // namespace

TEST_CASE("direct_layers: max pools, subsampling and means equal their definitions") {
  for (const int channels : {1, 2, 3, 4, 5, 16, 35}) {
    const extent in{channels, 7, 6};
    const auto x = drawn<std::int32_t>(in.size(), 32, 2);
    const detail::ops::max_pool_problem pool{in, 3, 2, 1};
    std::vector<std::int32_t> y(layers::size_of(pool.out())), expected(pool.out().size());
    layers::max_pool(pool, blocked<V>(in, x).data(), y.data());
    definition::max_pool(pool, x.data(), expected.data());
    CHECK(plain<V>(pool.out(), y) == expected);

    const detail::ops::subsample_problem half{in, {channels + 6, 4, 3}, 2};
    y.assign(layers::size_of(half.out), std::int32_t{1});
    expected.resize(half.out.size());
    layers::subsample(half, blocked<V>(in, x).data(), y.data());
    definition::subsample(half, x.data(), expected.data());
    CHECK(plain<V>(half.out, y) == expected);

    const auto wide = drawn<std::int32_t>(in.size(), 24, 3);
    const extent out{channels, 1, 1};
    std::vector<std::int32_t> means(layers::size_of(out)), exact(out.size());
    layers::mean(in, blocked<V>(in, wide).data(), means.data());
    definition::mean(in, wide.data(), exact.data());
    CHECK(plain<V>(out, means) == exact);
  }
}
