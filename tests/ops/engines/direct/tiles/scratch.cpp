// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/scratch.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE_TEMPLATE("scratch: it is aligned to a cache line and grows to the largest size reserved",
                   Real, float, double) {
  scratch<Real> memory;
  for (const std::size_t n : {1u, 5u, 100u, 7u, 4097u}) {
    Real* const at = memory.reserve(n);
    CHECK(reinterpret_cast<std::uintptr_t>(at) % 64 == 0);
    for (std::size_t i = 0; i < n; ++i) at[i] = Real{1};  // AddressSanitizer checks the bounds
  }
  Real* const most = memory.reserve(4097);
  CHECK(memory.reserve(10) == most);
  CHECK(most[4096] == 1);  // a smaller or an equal size keeps the contents
}

TEST_CASE("scratch: the pixels that a 1x1 window with a stride reads are gathered and scattered") {
  constexpr int V = 4;
  const convolution_problem p{{5, 5, 6}, 8, 1, 2, 0};
  const strided_pixels<V> strided(p);
  CHECK(strided.dense_layer(p) == convolution_problem{{5, 3, 3}, 8, 1, 1, 0});
  std::vector<float> x(2 * 30 * V), wanted, back(x.size(), 3), more(x.size(), 3), dense(2 * 9 * V);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  strided.gather(x.data(), dense.data());
  strided.scatter(dense.data(), back.data(), false);
  strided.scatter(dense.data(), more.data(), true);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t pixel = i / V % 30;
    const bool is_read = pixel / 6 % 2 == 0 && pixel % 6 % 2 == 0;
    if (is_read) wanted.push_back(x[i]);
    CHECK(back[i] == (is_read ? x[i] : 0));
    CHECK(more[i] == 3 + (is_read ? x[i] : 0));
  }
  CHECK(dense == wanted);
  // Not with overlapping taps, not with padding, and not for an image of few channels.
  for (const convolution_problem& other : {convolution_problem{{5, 5, 6}, 8, 3, 2, 0},
                                           {{5, 5, 6}, 8, 1, 2, 1},
                                           {{3, 5, 6}, 8, 1, 2, 0}}) {
    CHECK(strided_pixels<V>(other).stride == 1);
    CHECK(strided_pixels<V>(other).dense_layer(other) == other);
  }
}

TEST_CASE("scratch: samples become pairs of two, the last alone with zeros") {
  constexpr std::size_t size = 37, first = 3, last = 36;
  std::vector<bfloat> x(3 * size);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(257 * i + 1);
  scratch<bfloat_pair> memory;
  for (const std::size_t samples : {1u, 2u, 3u}) {
    const bfloat_pair* const pairs = pair_samples(x.data(), samples, size, first, last, memory);
    for (std::size_t n = 0; n < samples; n += 2)
      for (std::size_t i = first; i < last; ++i) {
        const bfloat odd = n + 1 < samples ? x[(n + 1) * size + i] : bfloat{};
        CHECK(pairs[n / 2 * size + i] == (bfloat_pair{odd.bits} << 16 | x[n * size + i].bits));
      }
  }
}

TEST_CASE("scratch: an image with its padding, and two rows of zeros below") {
  const convolution_problem p{{2, 3, 4}, 8, 3, 1, 1};
  CHECK(padded_columns(p) == 6);
  std::vector<double> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i + 1);
  scratch<double> memory;
  const double* const padded = pad_image(p, x.data(), memory);
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 6; ++j)
      for (int c = 0; c < 2; ++c) {
        const bool inside = i >= 1 && i <= 3 && j >= 1 && j <= 4;
        CHECK(padded[(i * 6 + j) * 2 + c] == (inside ? ((i - 1) * 4 + j - 1) * 2 + c + 1 : 0));
      }
}
