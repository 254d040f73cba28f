// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every engine's convolution of bytes is held to: the definition, to the bit.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/convolution_bytes.hpp>

#include "tests/support/engines.hpp"
#include "tests/support/stored.hpp"

namespace support {

template <class T>
std::vector<T> random_whole(std::size_t n, std::uint64_t which, int low, int high) {
  random_sequence draw(9, purpose::test, which, 0);
  std::vector<T> v(n);
  for (T& x : v)
    x = static_cast<T>(low +
                       static_cast<int>(draw.below(static_cast<std::uint32_t>(high - low + 1))));
  return v;
}

/// An engine's byte convolution behind plain vectors in NCHW, on a device.
template <class Engine, class D = cpu>
struct byte_harness {
  convolution_problem p;
  int samples = 1;
  affine<float> k;
  bench_on<D> at{D(1)};

  int in_block = Engine::template block<float>(p.in.channels);
  int out_block = Engine::template block<float>(p.filters);
  double filled = 0;  // magnitude found in channels that must be zero

  template <class In, class Out>
  std::vector<double> run(const std::vector<double>& x, const std::vector<std::int8_t>& w,
                          const std::vector<float>& scales) {
    // Channels that only fill a block of bytes may hold anything: their weights are zero.
    const auto in = at.put(blocked<In>(x, p.in, samples, in_block, In{77}));
    const auto weights = at.put(w);
    auto image = at.put(std::vector(Engine::packed_bytes(p), std::int8_t{99}));
    Engine::pack_bytes(p, weights.span().data, image.span().data, at.s);
    auto there = at.put(std::vector(size(samples) * sample_size(p.out(), out_block), Out{99}));
    const auto of_weights = at.put(scales);
    const auto fprop = [&](scaling_on<typename D::stream> by) {
      Engine::fprop_bytes(p, samples, in.span().data, by, image.span().data, of_weights.span().data,
                          there.span().data, at.s);
    };
    const auto of_input = at.put(std::vector{k});
    if constexpr (D::host_memory)
      fprop(k);
    else
      fprop(of_input.span().data);
    const std::vector<Out> out = at.get(there);
    filled = std::max(filled, filling(out, p.out(), samples, out_block));
    return plain(out, p.out(), samples, out_block);
  }
};

/// The sums of the definition, in doubles, which hold them.
inline std::vector<double> byte_sums(const convolution_problem& p, int samples, int zero,
                                     const std::vector<double>& x,
                                     const std::vector<std::int8_t>& w) {
  std::vector<double> y(size(samples) * p.out().size());
  each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    y[iy] += static_cast<double>(w[iw]) * (x[ix] - zero);
  });
  return y;
}

template <class Engine, class D = cpu>
void check_bytes(const convolution_problem& p, int samples, int zero,
                 const bench_on<D>& at = {D(1)}) {
  INFO(Engine::name, ", ", to_text(p), ", samples ", samples, ", zero ", zero);
  const auto q = random_whole<double>(size(samples) * p.in.size(), 1, 0, 255);
  const auto w = random_whole<std::int8_t>(p.weights(), 2, -127, 127);
  const auto sums = byte_sums(p, samples, zero, q, w);
  const affine<float> k{0.037f, 1 / 0.037f, zero, unsigned_bytes};
  byte_harness<Engine, D> engine{p, samples, k, at};
  CHECK(engine.template run<std::uint8_t, std::int32_t>(q, w, {}) == sums);

  std::vector<float> scales(size(p.filters));
  for (std::size_t f = 0; f < scales.size(); ++f) scales[f] = 0.01f * static_cast<float>(f + 1);
  std::vector<double> numbers(sums.size()), x(q.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    numbers[i] =
        k.scale * scales[i / p.out().pixels() % size(p.filters)] * static_cast<float>(sums[i]);
  // Numbers that are quantised to q, some by being clipped.
  for (std::size_t i = 0; i < q.size(); ++i) {
    x[i] = (q[i] - zero + (i % 7 == 0 ? 0.4 : -0.3)) * 0.037;
    if (q[i] == 255 && i % 2 == 0) x[i] = 1e9;
    if (q[i] == 0 && i % 2 == 0) x[i] = -1e9;
  }
  CHECK(engine.template run<float, float>(x, w, scales) == numbers);
  CHECK(engine.template run<float, std::int32_t>(x, w, {}) == sums);
  CHECK(engine.template run<std::uint8_t, float>(q, w, scales) == numbers);
  CHECK(engine.filled == 0);
}

}  // namespace support
