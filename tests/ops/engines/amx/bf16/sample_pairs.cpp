// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Words and tiles of pairs of samples; whole copies are covered by bf16/weight_gradient.cpp.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/sample_pairs.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

std::vector<bfloat> numbers_from(int first) {
  std::vector<bfloat> v;
  for (int i = 0; i < 64; ++i) v.push_back({static_cast<std::uint16_t>(first + i)});
  return v;
}

}  // namespace

TEST_CASE("sample_pairs: a word has the first sample in its low half; a missing one is zero") {
  const auto even = numbers_from(1), odd = numbers_from(0x8001);
  for (const bool both : {false, true})
    for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 33u}) {
      const bfloat_samples from{even.data(), both ? odd.data() : nullptr};
      std::vector<bfloat_pair> words(n + 1, 7);
      pair_numbers(from, static_cast<std::ptrdiff_t>(n), words.data());
      for (std::size_t i = 0; i < n; ++i)
        CHECK(words[i] == (i + 1) + (both ? (0x8001 + i) << 16 : 0));
      CHECK(words[n] == 7);
    }
}

TEST_CASE("sample_pairs: 32 channels become 16 even ones and 16 odd ones, 16 stay in order") {
  const auto even = numbers_from(1), odd = numbers_from(0x8001);
  for (const bool both : {false, true}) {
    const bfloat_samples from{even.data(), both ? odd.data() : nullptr};
    bfloat_pair first[16], second[16], whole[16];
    pair_channels<32>(from, first, second);
    pair_channels<16>(from, whole, nullptr);
    for (bfloat_pair i = 0; i < 16; ++i) {
      const auto word = [&](bfloat_pair c) { return (c + 1) + (both ? (0x8001 + c) << 16 : 0); };
      CHECK(first[i] == word(2 * i));
      CHECK(second[i] == word(2 * i + 1));
      CHECK(whole[i] == word(i));
    }
  }
}

TEST_CASE("sample_pairs: a tile is transposed") {
  std::vector<bfloat_pair> from(256), to(256);
  for (bfloat_pair i = 0; i < 256; ++i) from[i] = i;
  transpose_tile(from.data(), to.data());
  for (bfloat_pair i = 0; i < 256; ++i) CHECK(to[i] == i % 16 * 16 + i / 16);
}
