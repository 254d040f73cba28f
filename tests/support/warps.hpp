// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a block of whole warps promises of its products, on any device (device/warp.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/warp.hpp>

#include "tests/support/stored.hpp"

namespace support {

template <class Words>
inline constexpr bool whole_bytes = std::same_as<Words, byte_words>;

/// Warp v: C(v) += A(v) B(v)' of 32 by 16 numbers, twice, with A and B in shared memory in lines or
/// across them.
template <class Words, bool Across>
struct products {
  static constexpr int threads = 64, pitch = Across ? 80 : 48, each = 64 * 48;
  const std::byte *a, *b;  // 32 and 16 lines of 32 bytes for each warp
  typename Words::sum* c;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 2 * each; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& block) const {
    const int warp = block.thread() / 32, lane = block.thread() % 32;
    std::byte* const mine = block.template shared<std::byte>(shared_bytes()) + warp * each;
    std::byte* const other = mine + 32 * 48;
    put(a + warp * 32 * 32, 32, mine, lane);
    put(b + warp * 16 * 32, 16, other, lane);
    block.sync();
    fragment of_a[2], of_b[1];
    fragment_sums<Words> sums[2][1] = {};
    for (int half = 0; half < 2; ++half)
      get(block, of_a[half], mine + half * 16 * (Across ? 2 : pitch));
    get(block, of_b[0], other);
    block.multiply(of_a, of_b, sums);
    block.multiply(of_a, of_b, sums);
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 8; ++i)
        c[(warp * 32 + half * 16 + fragment_sums<Words>::row(lane, i)) * 16 +
          fragment_sums<Words>::column(lane, i)] = sums[half][0].at[i];
  }

 private:
  template <class Block>
  CORDEE_DEVICE static void get(Block& block, fragment& f, const std::byte* tile) {
    if constexpr (Across)
      block.load_across(f, tile, pitch);
    else
      block.load(f, tile, pitch);
  }
  CORDEE_DEVICE static void put(const std::byte* from, int lines, std::byte* to, int lane) {
    for (int i = lane; i < lines * 16; i += 32) {
      const int line = i / 16, at = i % 16;  // of a line's pairs of bytes
      std::byte* const place = Across ? to + at * pitch + line * 2 : to + line * pitch + at * 2;
      place[0] = from[2 * i];
      place[1] = from[2 * i + 1];
    }
  }
};

template <class Words, bool Across, class D>
void product_is_right(const bench_on<D>& at) {
  constexpr int count = whole_bytes<Words> ? 4 : 2, depth = 8 * count;
  using narrow = std::conditional_t<std::same_as<Words, half_words>, cordee::half, bfloat>;
  const auto numbers = [&](std::size_t n, std::uint64_t which, std::vector<std::byte>& bytes) {
    random_sequence draw(7, purpose::test, which, 0);
    std::vector<double> v(n);
    for (double& x : v)
      if constexpr (whole_bytes<Words>) {
        const auto byte = static_cast<std::uint8_t>(draw.below(256));
        x = which == 1 ? byte : static_cast<std::int8_t>(byte);
        bytes.push_back(static_cast<std::byte>(byte));
      } else {
        x = draw.below(64) / 16.0 - 2;
        const std::uint16_t bits = nearest<narrow>(x).bits;
        bytes.push_back(static_cast<std::byte>(bits & 255));
        bytes.push_back(static_cast<std::byte>(bits >> 8));
      }
    return v;
  };
  std::vector<std::byte> of_a, of_b;
  const auto a = numbers(2 * 32 * depth, 1, of_a), b = numbers(2 * 16 * depth, 2, of_b);
  std::vector<typename Words::sum> wanted(2 * 32 * 16);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t k = 0; k < depth; ++k)
      wanted[i] += static_cast<typename Words::sum>(2 * a[i / 16 * depth + k] *
                                                    b[(i / 512 * 16 + i % 16) * depth + k]);
  const auto there_a = at.put(of_a), there_b = at.put(of_b);
  auto c = at.put(std::vector<typename Words::sum>(wanted.size()));
  at.s.launch(1, products<Words, Across>{there_a.span().data, there_b.span().data, c.span().data});
  CHECK(at.get(c) == wanted);
}

template <class Words, class D>
void products_are_right(const bench_on<D>& at) {
  product_is_right<Words, false>(at);
  if constexpr (!whole_bytes<Words>) product_is_right<Words, true>(at);
}

}  // namespace support
