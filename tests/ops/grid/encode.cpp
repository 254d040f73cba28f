// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What travels narrower is encoded and decoded on a grid as on the CPU, and `narrow` leaves ranks
// on one GPU with the CPU's means and losses.
#include "tests/ops/grid/encode.hpp"

#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<narrow<ring<threads>, fp16>, float, emulated>);

namespace {

/// What each rank has after two means, and what its encodings have lost.
struct left {
  std::vector<float> mean, lost;
};
template <class D, class Make>
auto means(const D& where, int ranks, const Make& make, float bad = 0) {
  constexpr std::size_t n = 300;
  return on_ranks(ranks, [&](threads link) {
    const auto s = where.open();
    const auto reducer = make(link);
    const segment parts[] = {{"a", kind::weight, 0, 192}, {"b", kind::bias, 192, 108}};
    const bucket which{0, 0, n, parts};
    auto x = noise(n, static_cast<std::uint64_t>(link.rank()));
    if (link.rank() == 1 && bad != 0) x[200] = bad;
    remote<float, D> what(where, s, x), lost(where, s, std::vector<float>(n));
    buffer<std::byte, D> scratch(where, reducer.template scratch<float>(n));
    for (int round = 0; round < 2; ++round)
      reducer.mix(
          message<float, D, 1>{
              &which, {what.data(), n}, {span_on<float, D>{lost.data(), n}}, scratch.span()},
          moment{}, s);
    return left{what.read(), lost.read()};
  });
}
template <class D, class Make>
void narrowed_alike(const D& where, int ranks, const Make& make) {
  CAPTURE(ranks);
  const auto here = means(where, ranks, make), host = means(cpu(1), ranks, make);
  for (std::size_t r = 0; r < here.size(); ++r) {
    CHECK(here[r].mean == here[0].mean);
    CHECK(near(here[r].mean, host[r].mean));
    CHECK(near(here[r].lost, host[r].lost));
  }
}

}  // namespace

TEST_CASE(
    "encode on grids: scale, numbers and loss are the CPU's, from one number to many chunks") {
  for (const std::size_t n : {1u, 255u, 257u, 16385u, 40000u}) {
    encodes_alike<fp16>(emulated(1), noise(n, 1));
    encodes_alike<int8>(emulated(1), noise(n, 2));
  }
  encodes_alike<fp32>(emulated(1), noise(300, 3));
  encodes_alike<fp16>(emulated(1), std::vector<float>(300, 0.0f));
}

TEST_CASE("encode on grids: the largest number makes the scale wherever it stands") {
  for (const std::size_t at : {0u, 255u, 256u, 16383u, 16384u, 16640u, 16699u}) {
    auto x = noise(16700, 4);
    x[at] = -1e6f;
    encodes_alike<fp16>(emulated(1), x);
  }
}

TEST_CASE("encode on grids: what is not finite makes all that is encoded with it so") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF}) {
    auto x = noise(300, 4);
    x[299] = bad;
    encodes_alike<fp16>(emulated(1), x);
    encodes_alike<int8>(emulated(1), x);
  }
}

TEST_CASE("narrow on one GPU: the same bits on every rank, the CPU's means, and its losses") {
  const auto halves = [](threads link) { return narrow{ring{link}, fp16{}}; };
  for (const int ranks : {1, 2, 3}) narrowed_alike(emulated(1), ranks, halves);
  for (const std::uint64_t seed : {0u, 1u}) narrowed_alike(deferred(seed), 3, halves);
  narrowed_alike(emulated(2), 4, [](threads link) { return narrow{butterfly{link}, fp16{}}; });
  narrowed_alike(emulated(3), 2, [](threads link) { return narrow{ring{link}, int8{}}; });
}

TEST_CASE(
    "narrow on one GPU: what is not finite on a rank is so on all, in its own segment alone") {
  const auto found = means(
      emulated(1), 3,
      [](threads link) {
        return narrow{ring{link}, fp16{}};
      },
      HUGE_VALF);
  for (const left& one : found) {
    CHECK_FALSE(std::isfinite(one.mean[200]));
    for (std::size_t i = 0; i < 192; ++i) CHECK(std::isfinite(one.mean[i]));
  }
}
