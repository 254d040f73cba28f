// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU's conversions beside the host's: compiled here, run where there is one.
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/has_gpu.cuh"

using namespace cordee;
using support::has_gpu;

namespace {

/// bits[i] <- the nearest Narrow of the float whose bits are 65537 i + 12345, back[i] <- its value.
template <class Narrow>
struct converts {
  std::uint16_t* bits;
  float* back;
  CORDEE_HOST_DEVICE static float number(std::size_t i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(65537 * i + 12345));
  }
  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    const Narrow q = Narrow::nearest(number(i));
    bits[i] = q.bits;
    back[i] = q.exact();
  }
};

template <class Narrow>
void agrees() {
  constexpr std::size_t n = 1u << 20;
  const gpu device;
  const auto s = device.open();
  buffer<std::uint16_t, gpu> bits(device, n);
  buffer<float, gpu> back(device, n);
  for_each(s, n, converts<Narrow>{bits.span().data, back.span().data});
  const auto there = on_host<std::uint16_t, gpu>(device, bits.span(), s);
  const auto values = on_host<float, gpu>(device, back.span(), s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Narrow q = Narrow::nearest(converts<Narrow>::number(i));
    const bool none = std::isnan(q.exact());
    wrong += none ? !std::isnan(values[i])
                  : there[i] != q.bits || std::bit_cast<std::uint32_t>(values[i]) !=
                                              std::bit_cast<std::uint32_t>(q.exact());
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("hardware: a GPU rounds to the host's bits, and what is no number stays so") {
  if (!has_gpu()) return;
  agrees<cordee::half>();
  agrees<bfloat>();
}
