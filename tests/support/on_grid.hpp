// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What tests of kernels on grids share: numbers of any precision on any device and back, plain
// doubles in NCHW order in blocks of channels and back, and how far rounding may lead.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <cordee/device/buffer.hpp>
#include <cordee/ops/grid/blocked.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/stored.hpp"

namespace support {

using namespace cordee;

template <Number N>
double exact(N x) {
  return static_cast<double>(widened(x));
}

/// Normal numbers that N holds.
template <Number N>
std::vector<double> held(std::size_t n, std::uint64_t seed) {
  auto x = normal_numbers(n, seed);
  for (double& one : x) one = exact(nearest<N>(one));
  return x;
}

template <Number N>
std::vector<N> converted(const std::vector<double>& x) {
  std::vector<N> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](double one) { return nearest<N>(one); });
  return out;
}
template <Number N>
std::vector<double> converted_back(const std::vector<N>& x) {
  std::vector<double> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](N one) { return exact(one); });
  return out;
}

/// NCHW to blocks of V; where a block has no channel, `filling`.
template <class T>
std::vector<T> in_blocks(const std::vector<T>& plain, const extent& e, int V, T filling = T{}) {
  const detail::blocked to(e, V), from(e, 1);
  std::vector<T> out(plain.size() / e.size() * to.size(), filling);
  for (std::size_t i = 0; i < plain.size(); ++i) out[to.index(from.at(i))] = plain[i];
  return out;
}
template <class T>
std::vector<T> out_of_blocks(const std::vector<T>& blocks, const extent& e, int V) {
  const detail::blocked from(e, V), to(e, 1);
  std::vector<T> out(blocks.size() / from.size() * to.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = blocks[from.index(to.at(i))];
  return out;
}
/// Is what fills up the last blocks zero?
inline bool padding_is_zero(const std::vector<double>& blocks, const extent& e, int V) {
  const detail::blocked from(e, V);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (from.at(i).channel >= from.channels && blocks[i] != 0) return false;
  return true;
}

/// A vector on a device; reading waits for the stream.
template <class T, class D>
class remote {
 public:
  remote(const D& device, typename D::stream s, const std::vector<T>& host)
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

/// The largest |a - b| / (relative |b| + absolute); what is no number must be none in both.
inline double worst(const std::vector<double>& a, const std::vector<double>& b, double relative,
                    double absolute) {
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
