// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/direct_layers.hpp>

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

constexpr int V = detail::ops::lanes<float>;
using layers = direct_layers<V>;
using definition = integer_reference<>;

template <class T>
std::vector<T> drawn(std::size_t n, int bits, std::uint64_t seed) {
  random_sequence draw(seed, purpose::test, 0, 0);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(static_cast<std::int32_t>(draw.bits()) >> (32 - bits));
  return x;
}
/// Numbers (C, H, W) in blocks, and back.
template <class T>
std::vector<T> blocked(const extent& e, const std::vector<T>& x) {
  std::vector<T> y(layers::size_of(e));
  layers::for_each_number(e, [&](std::size_t i, std::size_t at) { y[at] = x[i]; });
  return y;
}
template <class T>
std::vector<T> plain(const extent& e, const std::vector<T>& x) {
  std::vector<T> y(e.size());
  layers::for_each_number(e, [&](std::size_t i, std::size_t at) { y[i] = x[at]; });
  return y;
}

}  // namespace

TEST_CASE("direct_layers: max pools, subsampling and means equal their definitions") {
  for (const int channels : {1, 2, 3, 4, 5, 16, 35}) {
    const extent in{channels, 7, 6};
    const auto x = drawn<std::int16_t>(in.size(), 16, 2);
    const detail::ops::max_pool_problem pool{in, 3, 2, 1};
    std::vector<std::int16_t> y(layers::size_of(pool.out())), expected(pool.out().size());
    layers::max_pool(pool, blocked(in, x).data(), y.data());
    definition::max_pool(pool, x.data(), expected.data());
    CHECK(plain(pool.out(), y) == expected);

    const detail::ops::subsample_problem half{in, {channels + 6, 4, 3}, 2};
    y.assign(layers::size_of(half.out), std::int16_t{1});
    expected.resize(half.out.size());
    layers::subsample(half, blocked(in, x).data(), y.data());
    definition::subsample(half, x.data(), expected.data());
    CHECK(plain(half.out, y) == expected);

    const auto wide = drawn<std::int32_t>(in.size(), 24, 3);
    const extent out{channels, 1, 1};
    std::vector<std::int32_t> means(layers::size_of(out)), exact(out.size());
    layers::mean(in, blocked(in, wide).data(), means.data());
    definition::mean(in, wide.data(), exact.data());
    CHECK(plain(out, means) == exact);
  }
}
