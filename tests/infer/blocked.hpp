// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Activations of random integers, in (C, H, W) and in blocks of channels (C / V, H, W, V).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/infer/cpu/direct_layers.hpp>

namespace support {

template <class T>
std::vector<T> drawn(std::size_t n, int bits, std::uint64_t seed) {
  cordee::random_sequence draw(seed, cordee::purpose::test, 0, 0);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(static_cast<std::int32_t>(draw.bits()) >> (32 - bits));
  return x;
}
/// Numbers (C, H, W) in blocks, and back.
template <int V, class T>
std::vector<T> blocked(const cordee::extent& e, const std::vector<T>& x) {
  using layers = cordee::detail::infer::direct_layers<V>;
  std::vector<T> y(layers::size_of(e));
  layers::for_each_number(e, [&](std::size_t i, std::size_t at) { y[at] = x[i]; });
  return y;
}
template <int V, class T>
std::vector<T> plain(const cordee::extent& e, const std::vector<T>& x) {
  using layers = cordee::detail::infer::direct_layers<V>;
  std::vector<T> y(e.size());
  layers::for_each_number(e, [&](std::size_t i, std::size_t at) { y[i] = x[at]; });
  return y;
}

}  // namespace support
