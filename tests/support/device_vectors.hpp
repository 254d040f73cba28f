// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Shared by tests of GPU kernels: vectors of any number type on any device, conversion of NCHW to
// blocks of channels and back, and comparison with tolerances.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cordee/device/buffer.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/numbers.hpp"

namespace support {

using namespace cordee;

/// Normally distributed numbers, rounded to N.
template <Number N>
std::vector<double> representable_normals(std::size_t n, std::uint64_t seed) {
  auto x = normal_numbers(n, seed);
  for (double& one : x) one = to_double(nearest<N>(one));
  return x;
}

template <Number N>
std::vector<N> to_storage(const std::vector<double>& x) {
  std::vector<N> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](double one) { return nearest<N>(one); });
  return out;
}

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// From NCHW to blocks of V; padded channels are `filling`.
template <class T>
std::vector<T> to_blocked(const std::vector<T>& plain, const extent& e, int V, T filling = T{}) {
  const detail::ops::blocked_layout to(e, V), from(e, 1);
  std::vector<T> out(plain.size() / e.size() * to.size(), filling);
  for (std::size_t i = 0; i < plain.size(); ++i) out[to.offset(from.position_of(i))] = plain[i];
  return out;
}
template <class T>
std::vector<T> from_blocked(const std::vector<T>& blocks, const extent& e, int V) {
  const detail::ops::blocked_layout from(e, V), to(e, 1);
  std::vector<T> out(blocks.size() / from.size() * to.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = blocks[from.offset(to.position_of(i))];
  return out;
}
/// Are all padded channels zero?
inline bool padding_is_zero(const std::vector<double>& blocks, const extent& e, int V) {
  const detail::ops::blocked_layout from(e, V);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (from.position_of(i).channel >= from.channels && blocks[i] != 0) return false;
  return true;
}

/// A vector in device memory; `read` waits for the stream.
template <class T, class D>
class device_vector {
 public:
  device_vector(const D& device, typename D::stream s, const std::vector<T>& host)
      : device_(device), s_(s), room_(device, host.size()) {
    device_.copy(data(), host.data(), host.size() * sizeof(T), s_);
    device_.finish(s_);
  }
  [[nodiscard]] T* data() { return room_.span().data; }
  [[nodiscard]] std::vector<T> read() {
    std::vector<T> host(room_.size());
    device_.copy(host.data(), data(), host.size() * sizeof(T), s_);
    device_.finish(s_);
    return host;
  }

 private:
  D device_;
  typename D::stream s_;
  buffer<T, D> room_;
};

/// The largest |a - b| / (relative |b| + absolute); infinite if a NaN is in one alone.
inline double max_error_ratio(const std::vector<double>& a, const std::vector<double>& b,
                              double relative, double absolute) {
  if (a.size() != b.size()) return HUGE_VAL;
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isnan(a[i]) != std::isnan(b[i]))
      return HUGE_VAL;
    else if (a[i] != b[i] && !std::isnan(a[i]))
      out = std::max(out, std::abs(a[i] - b[i]) / (relative * std::abs(b[i]) + absolute));
  return out;
}

}  // namespace support
