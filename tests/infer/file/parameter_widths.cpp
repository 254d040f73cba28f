// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/file/parameter_widths.hpp>

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

integer_batch_norm norm_of(std::vector<std::int64_t> multiplier, std::vector<std::int64_t> addend) {
  integer_batch_norm n;
  n.multiplier = std::move(multiplier);
  n.addend = std::move(addend);
  return n;
}
/// Whether each addend is a number of so many bits times a power of two of another so many.
bool holds(const integer_batch_norm& n, int addend, int zeros) {
  return std::all_of(n.addend.begin(), n.addend.end(), [&](std::int64_t b) {
    for (int z = 0; z < 1 << zeros && z < 62; ++z)
      if ((b >> z) * (std::int64_t{1} << z) == b && signed_width(b >> z) <= addend) return true;
    return false;
  });
}

}  // namespace

TEST_CASE("parameter_widths: no fewer bits hold the addends of a layer") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    random_sequence draw(seed, purpose::test, 0, 0);
    integer_batch_norm n;
    const int digits = 1 + static_cast<int>(draw.below(30)),
              places = static_cast<int>(draw.below(30));
    for (std::size_t c = 0; c < 1 + seed % 9; ++c) {
      std::int64_t b = draw.below(1U << digits);
      b *= std::int64_t{1} << draw.below(1U + static_cast<unsigned>(places));
      n.addend.push_back(draw.below(2) == 0 ? b : -b);
    }
    n.multiplier = n.addend;
    const norm_widths bits(n);
    CHECK(holds(n, bits.addend, bits.zeros));
    for (int zeros = 0; zeros <= 6; ++zeros)
      CHECK_FALSE(holds(n, bits.addend + bits.zeros - 1 - zeros, zeros));
    for (const std::int64_t b : n.addend) {
      const int z = bits.zeros_of(b);
      CHECK(z < 1 << bits.zeros);
      CHECK((b >> z) * (std::int64_t{1} << z) == b);
      CHECK(signed_width(b >> z) <= bits.addend);
    }
  }
}

TEST_CASE("parameter_widths: the bits of given layers") {
  const norm_widths zero(norm_of({0, 0}, {0, 0}));
  CHECK(zero.multiplier == 1);
  CHECK(zero.addend == 1);
  CHECK(zero.zeros == 0);
  const norm_widths some(norm_of({-8, 7}, {3 << 12, -1}));
  CHECK(some.multiplier == 4);
  CHECK(some.addend == 3);  // 3
  CHECK(some.zeros == 4);   // 12
  CHECK(some.zeros_of(3 << 12) == 12);
  CHECK(some.zeros_of(-1) == 0);
  const norm_widths wide(norm_of({8}, {5 << 1}));  // five bits, or four and one of zeros
  CHECK(wide.multiplier == 5);
  CHECK(wide.addend + wide.zeros == 5);
  const norm_widths extreme(norm_of({-(std::int64_t{1} << 44)}, {std::int64_t{1} << 61}));
  CHECK(extreme.multiplier == 45);
  CHECK(extreme.zeros_of(std::int64_t{1} << 61) >= 1);
}

TEST_CASE("parameter_widths: shifts alone are stored of powers of two without biases") {
  integer_convolution c;
  c.bias = {0, 0, 0};
  c.factors = {{1 << 30, 1}, {1 << 30, -4}, {1 << 30, 3}};
  CHECK(shift_width(c) == 3);  // -4 .. 3
  c.factors[1].shift = -31;
  CHECK(shift_width(c) == 6);
  c.factors[1] = {(1 << 30) + 1, 0};
  CHECK(shift_width(c) == 0);
  c.factors[1] = {0, 0};
  CHECK(shift_width(c) == 0);
  c.factors[1] = {1 << 30, 0};
  CHECK(shift_width(c) == 3);
  c.bias[2] = -1;
  CHECK(shift_width(c) == 0);
}
