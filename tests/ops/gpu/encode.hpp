// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// encode and decode on any device, compared with the CPU's.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/encoded_wire.hpp>
#include <cordee/ops/gpu/encode.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/device_vectors.hpp"

namespace support {

inline std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  const auto x = representable_normals<float>(n, seed);
  return {x.begin(), x.end()};
}
/// Equal within some roundings; NaN equals NaN.
inline bool near(const std::vector<float>& a, const std::vector<float>& b) {
  return max_error_ratio({a.begin(), a.end()}, {b.begin(), b.end()}, 1e-6, 1e-6) <= 1;
}

/// Encodes and decodes x on a device and on the CPU.
template <class P, class D>
void check_encode(const D& device, const std::vector<float>& x) {
  CAPTURE(P::name);
  CAPTURE(x.size());
  using storage = typename P::storage;
  const std::size_t n = x.size();
  std::vector<storage> q(n);
  std::vector<typename P::scaling> k(1);
  auto residual = noise(n, 5), decoded = noise(n, 6), added = decoded;
  const cpu::stream host{};
  cordee::detail::comm::encode<P>(n, x.data(), 0.5f, q.data(), k.data(), residual.data(), host);
  cordee::detail::comm::decode<P>(n, q.data(), k.data(), decoded.data(), write_mode::overwrite,
                                  host);
  cordee::detail::comm::decode<P>(n, q.data(), k.data(), added.data(), write_mode::add, host);

  const auto s = device.make_stream();
  device_vector<float, D> input(device, s, x), device_residual(device, s, noise(n, 5)),
      device_decoded(device, s, noise(n, 6)), device_added(device, s, noise(n, 6));
  device_vector<storage, D> encoded(device, s, std::vector<storage>(n));
  device_vector<typename P::scaling, D> scale(device, s, std::vector<typename P::scaling>(1));
  encode<P>(n, input.data(), 0.5f, encoded.data(), scale.data(), device_residual.data(), s);
  decode<P>(n, encoded.data(), scale.data(), device_decoded.data(), write_mode::overwrite, s);
  decode<P>(n, encoded.data(), scale.data(), device_added.data(), write_mode::add, s);
  if constexpr (requires { k[0].scale; })
    if (!std::isnan(k[0].scale)) CHECK(scale.read()[0].scale == k[0].scale);
  CHECK(near(device_decoded.read(), decoded));
  CHECK(near(device_added.read(), added));
  CHECK(near(device_residual.read(), residual));
}

}  // namespace support
