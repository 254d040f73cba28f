// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What encode and decode do on any device, held to the CPU's.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/ops/grid/encode.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/on_grid.hpp"

namespace support {

inline std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  const auto x = held<float>(n, seed);
  return {x.begin(), x.end()};
}
/// Within some roundings of each other; what is no number is none in both.
inline bool near(const std::vector<float>& a, const std::vector<float>& b) {
  return worst({a.begin(), a.end()}, {b.begin(), b.end()}, 1e-6, 1e-6) <= 1;
}

/// A piece encoded and decoded on a device, and on the CPU.
template <class P, class D>
void encodes_alike(const D& device, const std::vector<float>& x) {
  CAPTURE(P::name);
  CAPTURE(x.size());
  using storage = typename P::storage;
  const std::size_t n = x.size();
  std::vector<storage> q(n);
  std::vector<typename P::scaling> k(1);
  auto lost = noise(n, 5), heard = noise(n, 6), all = heard;
  const cpu::stream host{};
  encode<P>(n, x.data(), 0.5f, q.data(), k.data(), lost.data(), host);
  decode<P>(n, q.data(), k.data(), heard.data(), into::overwrite, host);
  decode<P>(n, q.data(), k.data(), all.data(), into::add, host);

  const auto s = device.open();
  remote<float, D> from(device, s, x), left(device, s, noise(n, 5)), some(device, s, noise(n, 6)),
      whole(device, s, noise(n, 6));
  remote<storage, D> said(device, s, std::vector<storage>(n));
  remote<typename P::scaling, D> scale(device, s, std::vector<typename P::scaling>(1));
  encode<P>(n, from.data(), 0.5f, said.data(), scale.data(), left.data(), s);
  decode<P>(n, said.data(), scale.data(), some.data(), into::overwrite, s);
  decode<P>(n, said.data(), scale.data(), whole.data(), into::add, s);
  if constexpr (requires { k[0].scale; })
    if (!std::isnan(k[0].scale)) CHECK(scale.read()[0].scale == k[0].scale);
  CHECK(near(some.read(), heard));
  CHECK(near(whole.read(), all));
  CHECK(near(left.read(), lost));
}

}  // namespace support
