// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of byte convolutions: the bits of the definition.
#pragma once

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/convolution_bytes.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/engines.hpp"

namespace support {

template <class T>
std::vector<T> random_integers(std::size_t n, std::uint64_t stream, int low, int high) {
  random_sequence draw(9, purpose::test, stream, 0);
  std::vector<T> v(n);
  for (T& x : v)
    x = static_cast<T>(low +
                       static_cast<int>(draw.below(static_cast<std::uint32_t>(high - low + 1))));
  return v;
}

/// The byte convolution of an engine on a device, from and to vectors in NCHW.
template <class Engine, class D = cpu>
struct byte_harness {
  convolution_problem p;
  int samples = 1;
  cordee::detail::ops::affine_quantizer<float> k;
  device_fixture<D> device{D(1)};

  int in_block = Engine::template block<float>(p.in.channels);
  int out_block = Engine::template block<float>(p.filters);
  double padding = 0;  // the largest magnitude in padding channels, which must be zero

  template <class In, class Out>
  std::vector<double> run(const std::vector<double>& x, const std::vector<std::int8_t>& w,
                          const std::vector<float>& scales) {
    // Padding channels of bytes may hold anything: their weights are zero.
    const auto in = device.put(nchw_to_blocked<In>(x, p.in, samples, in_block, In{77}));
    const auto weights = device.put(w);
    auto packed = device.put(std::vector(Engine::packed_bytes(p), std::int8_t{99}));
    Engine::pack_bytes(p, weights.span().data, packed.span().data, device.s);
    auto result = device.put(
        std::vector(size(samples) * cordee::detail::ops::sample_size(p.out(), out_block), Out{99}));
    const auto weight_scales = device.put(scales);
    const auto fprop = [&](cordee::detail::ops::quantizer_on<typename D::stream> quantizer) {
      Engine::fprop_bytes(p, samples, in.span().data, quantizer, packed.span().data,
                          weight_scales.span().data, result.span().data, device.s);
    };
    const auto quantizer = device.put(std::vector{k});
    if constexpr (D::host_memory)
      fprop(k);
    else
      fprop(quantizer.span().data);
    const std::vector<Out> out = device.get(result);
    padding = std::max(padding, padding_magnitude(out, p.out(), samples, out_block));
    return plain(out, p.out(), samples, out_block);
  }
};

/// The sums of the definition; doubles hold them exactly.
inline std::vector<double> byte_sums(const convolution_problem& p, int samples, int zero_point,
                                     const std::vector<double>& x,
                                     const std::vector<std::int8_t>& w) {
  std::vector<double> y(size(samples) * p.out().size());
  for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    y[iy] += static_cast<double>(w[iw]) * (x[ix] - zero_point);
  });
  return y;
}

template <class Engine, class D = cpu>
void check_bytes(const convolution_problem& p, int samples, int zero_point,
                 const device_fixture<D>& device = {D(1)}, int largest = 127) {
  INFO(Engine::name, ", ", describe(p), ", samples ", samples, ", zero point ", zero_point,
       ", weights up to ", largest);
  const auto q = random_integers<double>(size(samples) * p.in.size(), 1, 0, 255);
  const auto w = random_integers<std::int8_t>(p.weights(), 2, -largest, largest);
  const auto sums = byte_sums(p, samples, zero_point, q, w);
  const cordee::detail::ops::affine_quantizer<float> k{0.037f, 1 / 0.037f, zero_point,
                                                       cordee::detail::ops::unsigned_bytes};
  byte_harness<Engine, D> engine{p, samples, k, device};
  CHECK(engine.template run<std::uint8_t, std::int32_t>(q, w, {}) == sums);

  std::vector<float> scales(size(p.filters));
  for (std::size_t f = 0; f < scales.size(); ++f) scales[f] = 0.01f * static_cast<float>(f + 1);
  std::vector<double> numbers(sums.size()), x(q.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    numbers[i] =
        k.scale * scales[i / p.out().pixels() % size(p.filters)] * static_cast<float>(sums[i]);
  // Numbers that are quantised to q, some of them by clipping.
  for (std::size_t i = 0; i < q.size(); ++i) {
    x[i] = (q[i] - zero_point + (i % 7 == 0 ? 0.4 : -0.3)) * 0.037;
    if (q[i] == 255 && i % 2 == 0) x[i] = 1e9;
    if (q[i] == 0 && i % 2 == 0) x[i] = -1e9;
  }
  CHECK(engine.template run<float, float>(x, w, scales) == numbers);
  CHECK(engine.template run<float, std::int32_t>(x, w, {}) == sums);
  CHECK(engine.template run<std::uint8_t, float>(q, w, scales) == numbers);
  CHECK(engine.padding == 0);
}

/// The sums where all bytes are 255 and all weights of the largest magnitudes: of one sign, of
/// alternating signs, and one pair of equal signs among such.
template <class Engine>
void check_extreme_bytes(const convolution_problem& p, int zero_point, int largest = 127) {
  INFO(Engine::name, ", ", describe(p), ", zero point ", zero_point, ", largest ", largest);
  const std::vector<double> q(p.in.size(), 255);
  byte_harness<Engine> engine{p, 1, {1, 1, zero_point, cordee::detail::ops::unsigned_bytes}};
  std::vector<std::int8_t> w(p.weights());
  const auto check = [&] {
    CHECK(engine.template run<std::uint8_t, std::int32_t>(q, w, {}) ==
          byte_sums(p, 1, zero_point, q, w));
  };
  const auto most = static_cast<std::int8_t>(largest), least = static_cast<std::int8_t>(-largest);
  for (const std::int8_t each : {most, least, static_cast<std::int8_t>(least - 1)}) {
    std::fill(w.begin(), w.end(), each);
    check();
  }
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = i % 2 == 0 ? most : least;
  check();
  const auto taps = static_cast<std::size_t>(p.window * p.window);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = i / taps % 2 == 0 ? most : least;
  check();
  w.back() = w[w.size() - 1 - std::min(taps, w.size() - 1)] = most;
  check();
}

}  // namespace support
