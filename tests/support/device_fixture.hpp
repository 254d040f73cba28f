// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies vectors of the host to a device, as numbers of any type, and back.
#pragma once

#include <cstdint>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/number.hpp>

namespace support {

using namespace cordee;

/// Half a unit in the last place of 1: the largest relative error of rounding to N.
template <Number N>
inline constexpr double roundoff = 0x1p-53;
template <>
inline constexpr double roundoff<float> = 0x1p-24;
template <>
inline constexpr double roundoff<cordee::half> = 0x1p-11;
template <>
inline constexpr double roundoff<bfloat> = 0x1p-8;

template <Number N>
N nearest(double x) {
  return detail::precision::rounded<N>(static_cast<detail::precision::wide<N>>(x));
}
/// The nearest N, as a double.
template <Number N>
double as(double x) {
  return static_cast<double>(detail::precision::widened(nearest<N>(x)));
}
template <Number N>
std::vector<double> as(std::vector<double> v) {
  for (double& x : v) x = as<N>(x);
  return v;
}

/// Numbers on [-2, 2) with so few digits that N holds them and that sums of a thousand of their
/// products are exact in wide<N> in any order, but seldom an N: a correct result is the exact sum
/// rounded once.
template <Number N>
std::vector<double> short_numbers(std::size_t n, std::uint64_t stream) {
  constexpr double unit = detail::precision::StorageOnly<N> ? 16 : sizeof(N) == 4 ? 64 : 1 << 20;
  random_sequence draw(7, purpose::test, stream, 0);
  std::vector<double> v(n);
  for (double& x : v) x = draw.below(static_cast<std::uint32_t>(4 * unit)) / unit - 2;
  return v;
}

/// A device and a stream of it, with copies of vectors to the device and back.
template <class D>
struct device_fixture {
  D device;
  typename D::stream s = device.make_stream();

  template <class T>
  [[nodiscard]] buffer<T, D> put(const std::vector<T>& host) const {
    buffer<T, D> on_device(device, host.size());
    device.copy(on_device.span().data, host.data(), host.size() * sizeof(T), s);
    device.finish(s);
    return on_device;
  }
  template <Number N>
  [[nodiscard]] buffer<N, D> put_as(const std::vector<double>& host) const {
    std::vector<N> v(host.size());
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = nearest<N>(host[i]);
    return put(v);
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(const buffer<T, D>& on_device) const {
    std::vector<T> host(on_device.size());
    device.copy(host.data(), on_device.span().data, host.size() * sizeof(T), s);
    device.finish(s);
    return host;
  }
  template <Number N>
  [[nodiscard]] std::vector<double> numbers(const buffer<N, D>& on_device) const {
    std::vector<double> v;
    for (const N x : get(on_device))
      v.push_back(static_cast<double>(detail::precision::widened(x)));
    return v;
  }
};
template <class D>
device_fixture(D) -> device_fixture<D>;

}  // namespace support
