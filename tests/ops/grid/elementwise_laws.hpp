// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The passes over numbers on any device beside those on the CPU.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/grid/elementwise.hpp>

#include "tests/support/on_grid.hpp"

namespace support {

/// Every pass over n numbers that begin `shift` numbers behind a pack; one more number stands
/// behind the last.
template <Number N, class D>
void check_passes(const D& device, std::size_t n, std::size_t shift) {
  using real = wide<N>;
  const auto s = device.open();
  const auto x = held<N>(shift + n + 1, 1), y = held<N>(shift + n + 1, 2);
  const auto numbers = [&](const std::vector<double>& from) {
    return std::vector<real>(from.begin() + static_cast<std::ptrdiff_t>(shift), from.end() - 1);
  };
  // One operation in wide and one rounding: the CPU's result, rounded.
  const auto check = [&](const char* name, const auto& run, const std::vector<real>& want) {
    INFO(name, ", n ", n, ", shift ", shift);
    remote<N, D> from(device, s, converted<N>(x)), to(device, s, converted<N>(y));
    run(from.data() + shift, to.data() + shift);
    const auto out = converted_back<N>(to.read());
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(out[i] == (i >= shift && i - shift < n ? exact(rounded<N>(want[i - shift])) : y[i]));
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
  remote<real, D> factor(device, s, {real(0.3)});
  check(
      "scale", [&](const N*, N* b) { scale(n, factor.data(), b, s); }, want);
}

template <Number N, int V, class D>
void check_bytes(const D& device, const extent& e, int samples) {
  INFO(to_text(e), ", V ", V, ", samples ", samples);
  using real = wide<N>;
  const auto s = device.open();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(samples) * e.size());
  random_sequence random(5, purpose::test, 0, 0);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.below(256));
  const normalisation by{.mean = {0.485f, 0.456f, 0.406f}, .scale = {4.37f, 4.46f, 4.44f}};
  std::vector<real> want(static_cast<std::size_t>(samples) * sample_size(e, V), real{7});
  normalise_bytes<real, V>(e, samples, bytes.data(), by, want.data(), cpu::stream{});
  remote<std::uint8_t, D> from(device, s, bytes);
  remote<N, D> x(device, s, std::vector<N>(want.size(), nearest<N>(7)));
  normalise_bytes<N, V>(e, samples, from.data(), by, x.data(), s);
  // Three operations, which a compiler may fuse: one unit of wide more than the one of N, at the
  // largest intermediate.
  CHECK(worst(converted_back(x.read()), {want.begin(), want.end()}, roundoff<N>,
              8 * roundoff<real>) <= 1);
  CHECK(padding_is_zero(converted_back(x.read()), e, V));
}

template <Number N, class D>
void check_elementwise(const D& device) {
  constexpr std::size_t pack = detail::pack<N>::size;
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
