// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of engine `tensor_core` on bytes, and of the gradients of byte convolutions, on any device
// with MmaBlock.
#pragma once

#include <vector>

#include <cordee/ops/engines/tensor_core/bytes.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>

#include "tests/support/byte_engines.hpp"

namespace support {

/// Windows, strides, paddings and tails, in all three tiles; of one tap also with padding.
inline constexpr convolution_problem byte_shapes[] = {
    {{3, 9, 8}, 16, 3, 1, 1}, {{17, 5, 4}, 40, 3, 2, 1}, {{16, 4, 5}, 3, 1, 2, 0},
    {{3, 9, 8}, 4, 7, 2, 3},  {{2, 4, 3}, 2, 2, 1, 2},   {{40, 2, 3}, 72, 1, 1, 0},
    {{5, 4, 3}, 6, 1, 1, 1},  {{40, 3, 4}, 33, 1, 2, 1},
};
inline constexpr convolution_problem byte_gradient_shapes[] = {
    {{3, 5, 4}, 17, 3, 1, 1}, {{20, 5, 4}, 9, 3, 2, 1}, {{9, 4, 5}, 3, 1, 2, 0}};

template <class D>
void byte_gradients_are_the_definitions(const device_fixture<D>& at, const convolution_problem& p,
                                        int samples) {
  INFO(describe(p), ", samples ", samples);
  // 255 quantization steps of 1 / 128; inputs are multiples of a quarter step, some out of range.
  const cordee::detail::ops::affine_quantizer<float> k =
      cordee::detail::ops::fit_affine(-127.0f / 128, 1.0f, cordee::detail::ops::unsigned_bytes);
  REQUIRE(k.scale == 0x1p-7f);
  random_sequence draw(8, purpose::test, 1, 0);
  std::vector<double> x(size(samples) * p.in.size()), left(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = draw.below(1400) / 512.0 - 1.35;
    left[i] = k.fake_quantize(static_cast<float>(x[i]));
  }
  const auto w = short_numbers<bfloat>(p.weights(), 2), dw0 = short_numbers<bfloat>(w.size(), 3),
             dy = short_numbers<bfloat>(size(samples) * p.out().size(), 4),
             dx0 = short_numbers<bfloat>(x.size(), 5);
  std::vector<double> dx(x.size()), dw(w.size());
  for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    if (k.in_range(static_cast<float>(x[ix]))) dx[ix] += w[iw] * dy[iy];
    dw[iw] += dy[iy] * left[ix];
  });
  const auto in_floats = [](std::vector<double> v) { return as<float>(std::move(v)); };
  const int in = tensor_core::block<float>(p.in.channels),
            out = tensor_core::block<float>(p.filters);
  const auto device_x = at.put(nchw_to_blocked<float>(x, p.in, samples, in)),
             device_dy = at.put(nchw_to_blocked<float>(dy, p.out(), samples, out)),
             device_w = at.template put_as<float>(w);
  const auto by = at.put(std::vector{k});
  auto packed =
      at.template put_as<bfloat>(std::vector<double>(tensor_core::packed_dequantized_size(p), 99));
  tensor_core::pack_dequantized(p, device_w.span().data, packed.span().data, at.s);
  for (const write_mode dx_mode : {write_mode::overwrite, write_mode::add}) {
    auto to = at.put(nchw_to_blocked<float>(dx0, p.in, samples, in));
    auto to_w = at.template put_as<float>(dw0);
    const auto backward = [&](write_mode mode, float* dx) {
      tensor_core::backward_bytes(p, samples, device_x.span().data, by.span().data,
                                  device_dy.span().data, packed.span().data, to_w.span().data, mode,
                                  dx, dx_mode, at.s);
    };
    backward(dx_mode, to.span().data);
    auto wanted = dx, wanted_w = dw;
    for (std::size_t i = 0; dx_mode == write_mode::add && i < dx.size(); ++i) wanted[i] += dx0[i];
    for (std::size_t i = 0; dx_mode == write_mode::add && i < dw.size(); ++i) wanted_w[i] += dw0[i];
    const std::vector<float> found = at.get(to);
    CHECK(plain(found, p.in, samples, in) == wanted);
    CHECK(padding_magnitude(found, p.in, samples, in) == 0);
    CHECK(at.numbers(to_w) == in_floats(wanted_w));
    backward(write_mode::overwrite, nullptr);
    CHECK(at.numbers(to_w) == in_floats(dw));
  }
}

/// One pixel with the largest number of channels allowed.
template <class D>
void the_largest_sums_do_not_saturate(const device_fixture<D>& at) {
  const convolution_problem p{{257, 1, 1}, 1, 1, 1, 0};
  byte_harness<tensor_core, D> engine{p, 1, {1, 1, 0, cordee::detail::ops::unsigned_bytes}, at};
  CHECK(engine.template run<std::uint8_t, std::int32_t>(std::vector<double>(257, 255),
                                                        std::vector<std::int8_t>(257, 127),
                                                        {}) == std::vector{257.0 * 255 * 127});
}

}  // namespace support
