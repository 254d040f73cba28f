// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images and windows by pairs of columns; the convolution that reads them:
// tests/ops/engines/cudnn/paired_columns.cpp.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/paired_columns.hpp>

#include "tests/support/device_vectors.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE_TEMPLATE("paired_columns: images have the numbers of normalize_bytes behind two zeros", N,
                   half, bfloat) {
  const emulated device(3);
  const auto s = device.make_stream();
  const normalization by{{.4f, .5f, .6f, .7f}, {4, 5, 2, 3}};
  for (const extent& e : {extent{3, 4, 6}, extent{4, 3, 2}, extent{1, 5, 8}, extent{3, 1, 224}}) {
    for (const int samples : {0, 1, 3}) {
      const auto n = static_cast<std::size_t>(samples);
      random_sequence random(5, purpose::synthetic, 0, 0);
      std::vector<std::uint8_t> numbers(n * e.size() + 2);
      for (auto& one : numbers) one = static_cast<std::uint8_t>(random.below(256));
      device_vector<std::uint8_t, emulated> bytes(device, s, numbers);
      device_vector<N, emulated> plain(device, s, std::vector<N>(n * e.pixels() * 4 + 8)),
          pairs(device, s,
                std::vector<N>(n * e.pixels() / static_cast<std::size_t>(e.width) *
                                       static_cast<std::size_t>(e.width + 2) * 4 +
                                   8,
                               nearest<N>(7)));
      normalize_bytes<N, 4>(e, samples, bytes.data(), by, plain.data(), s);
      normalize_bytes_by_pairs(e, samples, bytes.data(), by, pairs.data(), s);
      const auto want = to_doubles(plain.read()), found = to_doubles(pairs.read());
      std::size_t from = 0, at = 0;
      for (int row = 0; row < samples * e.height; ++row) {
        for (int k = 0; k < 8; ++k) CHECK(found[at++] == 0);
        for (int k = 0; k < 4 * e.width; ++k) CHECK(found[at++] == want[from++]);
      }
      CHECK(found[at] == 7);  // nothing behind them is written
    }
  }
  CHECK_THROWS_AS(normalize_bytes_by_pairs({3, 4, 5}, 1, nullptr, by, static_cast<N*>(nullptr), s),
                  usage_error);
}

TEST_CASE("paired_columns: windows get a tap of zeros before each row, and lose it") {
  const emulated device(3);
  const auto s = device.make_stream();
  for (const auto& [filters, window] : {std::pair{1, 7}, std::pair{5, 7}, std::pair{3, 1}}) {
    const auto taps = static_cast<std::size_t>(filters * window * window),
               rows = static_cast<std::size_t>(filters * window);
    std::vector<half> numbers(4 * taps);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = half::nearest(static_cast<float>(i + 1));
    device_vector<half, emulated> narrow(device, s, numbers),
        wide(device, s, std::vector<half>(4 * (taps + rows), half::nearest(-1.0f))),
        back(device, s, std::vector<half>(4 * taps));
    widen_windows(filters, window, narrow.data(), wide.data(), s);
    const auto found = to_doubles(wide.read());
    std::size_t i = 0;
    for (std::size_t k = 0; k < found.size(); ++k) {
      const bool zero = k / 4 % static_cast<std::size_t>(window + 1) == 0;
      CHECK(found[k] == (zero ? 0 : static_cast<double>(++i)));
    }
    narrow_windows(filters, window, wide.data(), back.data(), s);
    CHECK(to_doubles(back.read()) == to_doubles(numbers));
  }
}
