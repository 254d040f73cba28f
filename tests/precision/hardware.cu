// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Conversions on the GPU compared with those on the host.
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

using namespace cordee;

namespace {

/// bits[i] <- the nearest Stored of the float whose bits are 65537 i + 12345, back[i] <- its value.
template <class Stored>
struct convert_op {
  std::uint16_t* bits;
  float* back;
  CORDEE_HOST_DEVICE static float number(std::size_t i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(65537 * i + 12345));
  }
  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    const Stored q = Stored::nearest(number(i));
    bits[i] = q.bits;
    back[i] = q.exact();
  }
};

template <class Stored>
void check_agreement() {
  constexpr std::size_t n = 1u << 20;
  const gpu device;
  const auto s = device.make_stream();
  buffer<std::uint16_t, gpu> bits(device, n);
  buffer<float, gpu> back(device, n);
  for_each(s, n, convert_op<Stored>{bits.span().data, back.span().data});
  const auto device_bits = copy_to_host<std::uint16_t, gpu>(device, bits.span(), s);
  const auto values = copy_to_host<float, gpu>(device, back.span(), s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Stored q = Stored::nearest(convert_op<Stored>::number(i));
    const bool is_nan = std::isnan(q.exact());
    wrong += is_nan ? !std::isnan(values[i])
                    : device_bits[i] != q.bits || std::bit_cast<std::uint32_t>(values[i]) !=
                                                      std::bit_cast<std::uint32_t>(q.exact());
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("hardware: conversions on the GPU have the bits of the host's, and NaN stays NaN") {
  check_agreement<cordee::half>();
  check_agreement<bfloat>();
}
