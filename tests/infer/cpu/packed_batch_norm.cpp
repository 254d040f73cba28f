// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/cpu/direct_layers.hpp>
#include <cordee/infer/cpu/packed_batch_norm.hpp>

#include "tests/infer/blocked.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;
using namespace support;

namespace {

using definition = integer_reference<>;

/// Sums of up to `bits` bits, of which `shift` are shifted out.
integer_batch_norm drawn_norm(const extent& in, int bits, int shift) {
  random_sequence draw(11, purpose::test, 0, 0);
  integer_batch_norm n;
  n.in = in;
  n.shift = shift;
  const auto number = [&](int size) {
    const auto word = static_cast<std::int64_t>(std::uint64_t{draw.bits()} << 32 | draw.bits());
    return word >> (64 - size);
  };
  for (int c = 0; c < in.channels; ++c) {
    n.multiplier.push_back(number(bits - 18));
    n.addend.push_back(number(bits - 1));
  }
  n.residual_factor = fixed_point::from_real(0.3);
  n.offset = 7;
  return n;
}

template <int V, class Out>
void check(const integer_batch_norm& n) {
  const extent e = n.in;
  const auto x = drawn<std::int32_t>(e.size(), 18, 2),
             residual = drawn<std::int32_t>(e.size(), 24, 3);
  const packed_batch_norm<V> packed(n, wide_limit);
  std::vector<Out> y(direct_layers<V>::size_of(e)), expected(e.size());
  const auto in = blocked<V>(e, x), added = blocked<V>(e, residual);
  definition::batch_norm(n, x.data(), residual.data(), expected.data());
  for (const std::size_t parts : {1u, 2u, 5u}) {
    y.assign(y.size(), Out{});
    for (std::size_t k = parts; k-- > 0;) packed.run(in.data(), added.data(), y.data(), {k, parts});
    CHECK(plain<V>(e, y) == expected);
  }
  packed.run(in.data(), static_cast<const std::int32_t*>(nullptr), y.data());
  definition::batch_norm(n, x.data(), static_cast<const std::int32_t*>(nullptr), expected.data());
  CHECK(plain<V>(e, y) == expected);
}

template <int V>
void check_all() {
  for (const int channels : {1, 3, 4, 5, 16, 35})
    for (const auto& [bits, shift] : {std::pair{20, 0},
                                      {24, 10},
                                      {30, 22},
                                      {48, 40},
                                      {62, 38},
                                      {62, 31},
                                      {62, 0}}) {  // the last two do not fit 32 bits
      CAPTURE(channels);
      CAPTURE(bits);
      CAPTURE(shift);
      integer_batch_norm n = drawn_norm({channels, 5, 3}, bits, shift);
      check<V, std::uint8_t>(n);
      n.offset = 0;
      n.low = -wide_limit;
      n.high = wide_limit;
      check<V, std::int32_t>(n);
      for (const int large : {10, 31}) {  // nor does the residual
        n.residual_factor = {1 << 30, large};
        check<V, std::int32_t>(n);
      }
    }
}

}  // namespace

TEST_CASE("packed_batch_norm: equals the definition, residual or not, whatever fits 32 bits") {
  check_all<4>();
  check_all<8>();
  if constexpr (detail::ops::lanes<float> > 8) check_all<detail::ops::lanes<float>>();
}
