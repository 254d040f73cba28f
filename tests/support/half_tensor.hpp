// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of 16 bits beside the same numbers as floats, for passes that are those of floats.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/layout.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/further_types.hpp"
#include "tests/support/numbers.hpp"

namespace support {

template <class Number, int Block>
struct half_form {
  using number = Number;
  static constexpr int V = Block;
};
// One lane, a width without instructions of its own, a register, two of them.
#define HALF_FORMS                                                                            \
  half_form<half, 1>, half_form<bfloat, 4>,                                                   \
      half_form<half, lanes<float>> FURTHER_TYPES(, half_form<bfloat, 1>, half_form<half, 3>, \
                                                  half_form<bfloat, lanes<float>>,            \
                                                  half_form<bfloat, 2 * lanes<float>>)

/// The same numbers as N and as float.
template <Number N>
struct half_tensor {
  std::vector<N> stored;
  std::vector<float> wide_copy;

  half_tensor(std::size_t n, std::uint64_t seed) : stored(to_numbers<N>(normal_numbers(n, seed))) {
    widen();
  }
  /// Channels from `e.channels` on, which pad the last block of V, become zero.
  half_tensor(const extent& e, int samples, int block, std::uint64_t seed)
      : half_tensor(static_cast<std::size_t>(samples) * detail::ops::sample_size(e, block), seed) {
    const auto v = static_cast<std::size_t>(block);
    for (std::size_t i = 0; i < stored.size(); ++i)
      if (i % detail::ops::sample_size(e, block) / (e.pixels() * v) * v + i % v >=
          static_cast<std::size_t>(e.channels))
        stored[i] = N{};
    widen();
  }
  void widen() {
    wide_copy.clear();
    for (const N x : stored) wide_copy.push_back(widened(x));
  }
};

/// Whether `stored` is `exact`, rounded to N. In another order of fused products a float differs in
/// its last bits: 2^-20 of it is allowed.
template <Number N>
bool is_rounded_float(const std::vector<N>& stored, const std::vector<float>& exact) {
  REQUIRE(stored.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto x = static_cast<double>(exact[i]);
    const double error = std::abs(to_double(stored[i]) - x);
    if (!(error <= storage_error<N>(x) + 0x1p-20 * std::abs(x))) return false;
  }
  return true;
}
template <Number N>
bool is_equal_float(const std::vector<N>& stored, const std::vector<float>& exact) {
  return is_rounded_float(stored, exact) && to_doubles(stored) == to_doubles(exact);
}

}  // namespace support
