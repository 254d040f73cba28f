// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of bf16 whose sums of products are exact: -1, 0 and 1 at random, in an array that is
// indexed by std::ptrdiff_t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/precision/bf16.hpp>

namespace support {

struct bfloat_array {
  std::vector<cordee::bfloat> numbers;

  [[nodiscard]] const cordee::bfloat* data() const { return numbers.data(); }
  [[nodiscard]] cordee::bfloat* data() { return numbers.data(); }
  cordee::bfloat operator[](std::ptrdiff_t i) const { return numbers[static_cast<std::size_t>(i)]; }
  cordee::bfloat& operator[](std::ptrdiff_t i) { return numbers[static_cast<std::size_t>(i)]; }
};

inline bfloat_array small_bfloats(std::ptrdiff_t n, std::uint64_t seed) {
  cordee::random_sequence random(seed, cordee::purpose::test, 0, 0);
  bfloat_array array{std::vector<cordee::bfloat>(static_cast<std::size_t>(n))};
  for (auto& x : array.numbers)
    x = cordee::bfloat::nearest(static_cast<float>(random.below(3)) - 1);
  return array;
}

}  // namespace support
