// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/int8/byte_sample.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr int V = 16;
constexpr std::uint8_t zero = 7, untouched = 252;

struct low_byte {
  void quantize(const std::int16_t* x, std::uint8_t* q) const {
    for (int v = 0; v < V; ++v) q[v] = byte_of(x[v]);
  }
  [[nodiscard]] std::uint8_t byte_of(std::int16_t x) const { return static_cast<std::uint8_t>(x); }
};

std::vector<std::int16_t> numbers(const extent& in) {
  std::vector<std::int16_t> x(sample_size(in, channel_block_size<V>(in.channels)));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int16_t>(i * 11 % 251);
  return x;
}

/// The number of bytes in these rows that are not those of the padded input's pixels, for layers
/// with a stride of one or a window larger than one; and of bytes in other rows that were written.
int wrong_bytes(const convolution_problem& p, const byte_sample<V>& sample,
                byte_sample<V>::row_range range) {
  scratch<std::uint8_t> memory;
  std::fill_n(memory.reserve(sample.size() + V), sample.size(), untouched);
  const auto x = numbers(p.in);
  std::uint8_t* const q = sample.padded(memory, zero, 1, range);
  sample.quantize(x.data(), low_byte{}, q, range);
  int wrong = 0;
  for (int b = 0; b < sample.blocks; ++b)
    for (int r = 0; r < sample.rows; ++r)
      for (int s = 0; s < sample.columns; ++s)
        for (int v = 0; v < std::min(sample.block, p.in.channels - b * sample.block); ++v) {
          const int h = r - p.padding, w = s - p.padding;
          const bool inside = h >= 0 && h < p.in.height && w >= 0 && w < p.in.width;
          const auto from =
              static_cast<std::size_t>(((b * p.in.height + h) * p.in.width + w) * sample.block + v);
          const std::uint8_t expected = r < range.first || r >= range.last ? untouched
                                        : inside ? static_cast<std::uint8_t>(x[from])
                                                 : zero;
          wrong += q[b * sample.plane() + r * sample.row() + s * sample.block + v] != expected;
        }
  return wrong;
}
/// The same of all rows, and of rows at either end and in the middle.
int wrong_bytes(const convolution_problem& p) {
  const byte_sample<V> sample(p);
  return wrong_bytes(p, sample, sample.all_rows()) + wrong_bytes(p, sample, {0, 3}) +
         wrong_bytes(p, sample, {2, 5}) + wrong_bytes(p, sample, {sample.rows - 2, sample.rows});
}

}  // namespace

TEST_CASE("byte_sample: bytes of the pixels, with the zero point around them") {
  CHECK(wrong_bytes({{32, 5, 6}, 16, 3, 1, 1}) == 0);
  CHECK(wrong_bytes({{40, 8, 7}, 16, 3, 2, 1}) == 0);
  CHECK(wrong_bytes({{3, 9, 8}, 16, 7, 2, 3}) == 0);
  CHECK(wrong_bytes({{32, 9, 9}, 16, 2, 3, 0}) == 0);  // the last row and column are not read
}

TEST_CASE("byte_sample: a window of one pixel reads all pixels in longer rows, without copies") {
  const byte_sample<V> sample({{32, 14, 14}, 16, 1, 1, 0});
  CHECK(sample.is_input());
  CHECK(sample.problem.in == extent{32, 2, 98});
  CHECK(sample.size() == 32 * 14 * 14);
  CHECK(byte_sample<V>({{32, 13, 13}, 16, 1, 1, 0}).problem.in == extent{32, 13, 13});
  CHECK(!byte_sample<V>({{32, 14, 14}, 16, 3, 1, 1}).is_input());
  CHECK(!byte_sample<V>({{3, 14, 14}, 16, 1, 1, 0}).is_input());
}

TEST_CASE("byte_sample: a stride of a window of one pixel leaves the pixels that are read") {
  const convolution_problem p{{32, 25, 21}, 16, 1, 2, 0};  // 13 x 11 pixels in rows of 143 or less
  const byte_sample<V> sample(p);
  CHECK(!sample.is_input());
  REQUIRE(sample.size() == 32 * 13 * 11);
  REQUIRE(sample.columns != 11);
  REQUIRE(sample.rows > 1);
  const auto x = numbers(p.in);
  for (const int parts : {1, 2, 3, 4}) {
    scratch<std::uint8_t> memory;
    std::uint8_t* const q = sample.padded(memory, zero);
    for (int k = parts - 1; k >= 0; --k)
      sample.quantize(x.data(), low_byte{}, q,
                      {sample.rows * k / parts, sample.rows * (k + 1) / parts});
    int wrong = 0;
    for (int b = 0, i = 0; b < 2; ++b)
      for (int h = 0; h < p.in.height; h += 2)
        for (int w = 0; w < p.in.width; w += 2)
          for (int v = 0; v < V; ++v, ++i)
            wrong +=
                q[i] !=
                static_cast<std::uint8_t>(
                    x[static_cast<std::size_t>(((b * p.in.height + h) * p.in.width + w) * V + v)]);
    CHECK(wrong == 0);
  }
}
