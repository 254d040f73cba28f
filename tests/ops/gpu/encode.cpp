// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Encoding and decoding on a GPU equal the CPU's, and `compressed` leaves ranks on one GPU with the
// CPU's means and residuals.
#include "tests/ops/gpu/encode.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<compressed<ring<threads>, fp16>, float, emulated>);

namespace {

/// A rank's mean and residual after two all-reduces.
struct rank_result {
  std::vector<float> mean, residual;
};
template <class D, class Make>
auto means(const D& device, int ranks, const Make& make, float nonfinite = 0) {
  constexpr std::size_t n = 300;
  return on_ranks(ranks, [&](threads comm) {
    const auto s = device.make_stream();
    const auto reducer = make(comm);
    const segment parts[] = {{"a", kind::weight, 0, 192}, {"b", kind::bias, 192, 108}};
    const bucket which{0, 0, n, parts};
    auto x = noise(n, static_cast<std::uint64_t>(comm.rank()));
    if (comm.rank() == 1 && nonfinite != 0) x[200] = nonfinite;
    device_vector<float, D> device_x(device, s, x), residual(device, s, std::vector<float>(n));
    buffer<std::byte, D> scratch(device, reducer.template scratch<float>(n));
    for (int round = 0; round < 2; ++round)
      reducer.mix(bucket_view<float, D, 1>{&which,
                                           {device_x.data(), n},
                                           {span_on<float, D>{residual.data(), n}},
                                           scratch.span()},
                  step_info{}, s);
    return rank_result{device_x.read(), residual.read()};
  });
}
template <class D, class Make>
void check_compressed(const D& device, int ranks, const Make& make) {
  CAPTURE(ranks);
  const auto found = means(device, ranks, make), host = means(cpu(1), ranks, make);
  for (std::size_t r = 0; r < found.size(); ++r) {
    CHECK(found[r].mean == found[0].mean);
    CHECK(near(found[r].mean, host[r].mean));
    CHECK(near(found[r].residual, host[r].residual));
  }
}

}  // namespace

TEST_CASE(
    "encode on a GPU, emulated: scale, numbers and residual equal the CPU's, for one number to "
    "many chunks") {
  for (const std::size_t n : {1u, 255u, 257u, 16385u, 40000u}) {
    check_encode<fp16>(emulated(1), noise(n, 1));
    check_encode<int8>(emulated(1), noise(n, 2));
  }
  check_encode<fp32>(emulated(1), noise(300, 3));
  check_encode<fp16>(emulated(1), std::vector<float>(300, 0.0f));
}

TEST_CASE("encode on a GPU, emulated: the largest number determines the scale, wherever it is") {
  for (const std::size_t at : {0u, 255u, 256u, 16383u, 16384u, 16640u, 16699u}) {
    auto x = noise(16700, 4);
    x[at] = -1e6f;
    check_encode<fp16>(emulated(1), x);
  }
}

TEST_CASE(
    "encode on a GPU, emulated: a number that is not finite makes all that share its scale so") {
  for (const float nonfinite : {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF}) {
    auto x = noise(300, 4);
    x[299] = nonfinite;
    check_encode<fp16>(emulated(1), x);
    check_encode<int8>(emulated(1), x);
  }
}

TEST_CASE(
    "compressed on one GPU, emulated: the same bits on every rank, the CPU's means and residuals") {
  const auto halves = [](threads comm) { return compressed{ring{comm}, fp16{}}; };
  for (const int ranks : {1, 2, 3}) check_compressed(emulated(1), ranks, halves);
  for (const std::uint64_t seed : {0u, 1u}) check_compressed(deferred(seed), 3, halves);
  check_compressed(emulated(2), 4, [](threads comm) {
    return compressed{butterfly{comm}, fp16{}};
  });
  check_compressed(emulated(3), 2, [](threads comm) { return compressed{ring{comm}, int8{}}; });
}

TEST_CASE(
    "compressed on one GPU, emulated: a number that is not finite spreads to all ranks, in its "
    "segment alone") {
  const auto found = means(
      emulated(1), 3,
      [](threads comm) {
        return compressed{ring{comm}, fp16{}};
      },
      HUGE_VALF);
  for (const rank_result& result : found) {
    CHECK_FALSE(std::isfinite(result.mean[200]));
    for (std::size_t i = 0; i < 192; ++i) CHECK(std::isfinite(result.mean[i]));
  }
}
