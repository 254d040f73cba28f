// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The passes over numbers on any device beside those on the CPU.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/gpu/elementwise.hpp>

#include "tests/support/device_vectors.hpp"

namespace support {

/// Every operation on n numbers that start `shift` numbers after an aligned address; one more
/// number follows.
template <Number N, class D>
void check_passes(const D& device, std::size_t n, std::size_t shift) {
  using real = cordee::detail::precision::wide<N>;
  const auto s = device.make_stream();
  const auto x = representable_normals<N>(shift + n + 1, 1),
             y = representable_normals<N>(shift + n + 1, 2);
  const auto numbers = [&](const std::vector<double>& from) {
    return std::vector<real>(from.begin() + static_cast<std::ptrdiff_t>(shift), from.end() - 1);
  };
  // One operation in wide and one rounding: the CPU's result, rounded.
  const auto check = [&](const char* name, const auto& run, const std::vector<real>& want) {
    INFO(name, ", n ", n, ", shift ", shift);
    device_vector<N, D> from(device, s, to_storage<N>(x)), to(device, s, to_storage<N>(y));
    run(from.data() + shift, to.data() + shift);
    const auto out = to_doubles<N>(to.read());
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(out[i] == (i >= shift && i - shift < n
                           ? to_double(cordee::detail::precision::rounded<N>(want[i - shift]))
                           : y[i]));
  };
  auto want = numbers(y);
  add(n, numbers(x).data(), want.data(), cpu::stream{});
  check(
      "add", [&](const N* a, N* b) { add(n, a, b, s); }, want);
  relu_forward(n, numbers(x).data(), want.data(), cpu::stream{});
  check(
      "relu_forward", [&](const N* a, N* b) { relu_forward(n, a, b, s); }, want);
  want = numbers(y);
  relu_backward(n, numbers(x).data(), want.data(), cpu::stream{});
  check(
      "relu_backward", [&](const N* a, N* b) { relu_backward(n, a, b, s); }, want);
  want = numbers(y);
  for (real& one : want) one *= real(0.3);
  device_vector<real, D> factor(device, s, {real(0.3)});
  check(
      "scale", [&](const N*, N* b) { scale(n, factor.data(), b, s); }, want);
}

template <Number N, int V, class D>
void check_bytes(const D& device, const extent& e, int samples) {
  INFO(describe(e), ", V ", V, ", samples ", samples);
  using real = cordee::detail::precision::wide<N>;
  const auto s = device.make_stream();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(samples) * e.size());
  random_sequence random(5, purpose::test, 0, 0);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.below(256));
  const normalization by{.mean = {0.485f, 0.456f, 0.406f}, .scale = {4.37f, 4.46f, 4.44f}};
  std::vector<real> want(static_cast<std::size_t>(samples) * cordee::detail::ops::sample_size(e, V),
                         real{7});
  normalize_bytes<real, V>(e, samples, bytes.data(), by, want.data(), cpu::stream{});
  device_vector<std::uint8_t, D> from(device, s, bytes);
  device_vector<N, D> x(device, s, std::vector<N>(want.size(), nearest<N>(7)));
  normalize_bytes<N, V>(e, samples, from.data(), by, x.data(), s);
  // Three operations, which a compiler may fuse: one unit of wide more than the one of N, at the
  // largest intermediate.
  CHECK(max_error_ratio(to_doubles(x.read()), {want.begin(), want.end()}, roundoff<N>,
                        8 * roundoff<real>) <= 1);
  CHECK(padding_is_zero(to_doubles(x.read()), e, V));
}

template <Number N, class D>
void check_elementwise(const D& device) {
  constexpr std::size_t pack = detail::ops::vec_16b<N>::size;
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, pack - 1, pack, pack + 1, 5 * pack, std::size_t{1029}})
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, pack})
      check_passes<N>(device, n, shift);
  for (const int samples : {0, 1, 3}) {
    check_bytes<N, 1>(device, {3, 5, 7}, samples);
    check_bytes<N, 3>(device, {3, 5, 7}, samples);
    check_bytes<N, 4>(device, {3, 5, 7}, samples);
    check_bytes<N, 8>(device, {3, 5, 7}, samples);
    check_bytes<N, 2>(device, {3, 4, 4}, samples);
    check_bytes<N, 8>(device, {1, 6, 5}, samples);
  }
}

}  // namespace support
