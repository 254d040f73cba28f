// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/cpu/direct_layers.hpp>
#include <cordee/infer/cpu/packed_convolution.hpp>

#include "tests/infer/blocked.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;
using support::drawn;

namespace {

constexpr int V = detail::ops::lanes<float>;
using default_correlation = detail::ops::default_byte_correlation<V>;
using by_tiles = detail::ops::byte_correlation_by_tiles<V, detail::ops::default_tile_unit>;

/// A convolution whose outputs fill about four times the range of Out.
template <class Out>
integer_convolution random_convolution(const convolution_problem& p, std::uint64_t seed) {
  integer_convolution c;
  c.problem = p;
  c.zero_point = 37;
  c.weights = drawn<std::int8_t>(p.weights(), 7, seed);
  const auto filters = static_cast<std::size_t>(p.filters);
  const double largest = sizeof(Out) == 1 ? 1 << 9 : 1 << 23;
  c.bias_shift = 7;
  c.bias = drawn<std::int32_t>(filters, sizeof(Out) == 1 ? 16 : 29, seed + 1);
  random_sequence draw(seed, purpose::test, 1, 0);
  for (std::size_t k = 0; k < filters; ++k)
    c.factors.push_back(fixed_point::from_real((0.5 + draw.uniform()) * largest / (1 << 20)));
  c.input_factor = fixed_point::from_real(1.0 / 64);
  c.residual_factor = fixed_point::from_real(0.7);
  c.offset = sizeof(Out) == 1 ? 21 : 0;
  c.low = sizeof(Out) == 1 ? 3 : -wide_limit;
  c.high = sizeof(Out) == 1 ? 250 : wide_limit;
  return c;
}

/// `reader`: of the copy in bytes; or null. `parts`: run one after another, the last first.
template <class In, class Out, class Correlation = default_correlation>
bool equals_definition(const integer_convolution& c, bool adds,
                       const packed_convolution<V>* reader = nullptr, std::size_t parts = 1) {
  using layers = direct_layers<V>;
  const extent in = c.problem.in, out = c.problem.out();
  const std::size_t samples = 3, numbers = std::max(layers::size_of(in), layers::size_of(out)),
                    pitch = (64 + 5 * numbers) / 64 * 64;
  std::vector<std::byte> blocked_x(samples * pitch), blocked_residual(samples * pitch),
      blocked_y(samples * pitch);
  const auto at = [pitch]<class T>(std::vector<std::byte>& memory, std::size_t n, T*) {
    return reinterpret_cast<T*>(memory.data() + n * pitch);
  };
  std::vector<Out> expected(samples * out.size()), y(expected.size());
  for (std::size_t n = 0; n < samples; ++n) {
    const auto x = drawn<In>(in.size(), sizeof(In) == 1 ? 8 : 16, 7 + 2 * n);
    const auto residual = drawn<std::int32_t>(out.size(), 20, 8 + 2 * n);
    integer_reference<>::convolution(c, x.data(), adds ? residual.data() : nullptr,
                                     expected.data() + n * out.size());
    layers::for_each_number(in, [&](std::size_t i, std::size_t k) {
      at(blocked_x, n, static_cast<In*>(nullptr))[k] = x[i];
    });
    layers::for_each_number(out, [&](std::size_t i, std::size_t k) {
      at(blocked_residual, n, static_cast<std::int32_t*>(nullptr))[k] = residual[i];
    });
  }
  const packed_convolution<V, Correlation> packed(c, adds ? 1 << 20 : 0);
  detail::ops::byte_scratch scratch;
  for (std::size_t k = parts; k-- > 0;)
    packed.run(scratch, at(blocked_x, 0, static_cast<In*>(nullptr)),
               adds ? at(blocked_residual, 0, static_cast<std::int32_t*>(nullptr)) : nullptr,
               at(blocked_y, 0, static_cast<Out*>(nullptr)), samples, pitch,
               reader == nullptr ? nullptr : &reader->to_bytes(), {k, parts});
  bool copies_equal = true;
  for (std::size_t n = 0; n < samples; ++n) {
    const Out* const numbers_of_y = at(blocked_y, n, static_cast<Out*>(nullptr));
    const auto* const copy =
        reinterpret_cast<const std::uint8_t*>(numbers_of_y + layers::size_of(out));
    layers::for_each_number(out, [&](std::size_t i, std::size_t k) {
      const Out number = y[n * out.size() + i] = numbers_of_y[k];
      if constexpr (sizeof(Out) > 1)
        if (reader != nullptr)
          copies_equal =
              copies_equal && copy[k] == reader->layer().template byte_of<std::int64_t>(number);
    });
  }
  return y == expected && copies_equal;
}

template <class In, class Out>
void check(const convolution_problem& p) {
  const auto c = random_convolution<Out>(p, 5);
  CHECK(equals_definition<In, Out>(c, false));
  for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u})
    CHECK(equals_definition<In, Out>(c, true, nullptr, parts));
}

}  // namespace

TEST_CASE("packed_convolution: equals its definition for each type of input and output") {
  // More rows than one chunk, filters that fill no block, three filters, strides, no padding, and
  // padding of an input that is as large as what is read. Pixels in other rows than the input's, of
  // one and of three channels, and samples of which two share a reading of the weights;
  // weights that are prefetched.
  for (const convolution_problem& p :
       {convolution_problem{{16, 19, 16}, 40, 3, 1, 1},
        convolution_problem{{16, 39, 40}, 16, 3, 2, 1}, convolution_problem{{3, 9, 8}, 16, 3, 2, 1},
        convolution_problem{{33, 5, 4}, 3, 1, 1, 0}, convolution_problem{{32, 6, 7}, 32, 1, 2, 0},
        convolution_problem{{16, 6, 6}, 16, 3, 3, 1}, convolution_problem{{3, 12, 14}, 33, 1, 1, 0},
        convolution_problem{{512, 14, 14}, 5, 1, 1, 0},
        convolution_problem{{64, 7, 7}, 80, 3, 1, 1}}) {
    check<std::uint8_t, std::uint8_t>(p);
    check<std::uint8_t, std::int32_t>(p);
    check<std::int32_t, std::uint8_t>(p);
    check<std::int32_t, std::int32_t>(p);
  }
}

TEST_CASE("packed_convolution: weights of 4 and 2 bits equal their definition") {
  for (const int bits : {3, 1})  // of a magnitude
    for (const convolution_problem& p :
         {convolution_problem{{16, 19, 16}, 40, 3, 1, 1},
          convolution_problem{{3, 9, 8}, 16, 7, 2, 3}, convolution_problem{{33, 5, 4}, 3, 1, 1, 0},
          convolution_problem{{300, 14, 14}, 24, 1, 2, 0},
          convolution_problem{{64, 7, 7}, 80, 3, 1, 1}}) {
      auto c = random_convolution<std::uint8_t>(p, 5);
      c.weight_bits = bits + 1;
      for (auto& w : c.weights) w = static_cast<std::int8_t>(w % (1 << bits));
      CHECK(equals_definition<std::uint8_t, std::uint8_t>(c, false));
      CHECK(equals_definition<std::int32_t, std::uint8_t>(c, true));
      std::fill(c.weights.begin(), c.weights.end(), static_cast<std::int8_t>((1 << bits) - 1));
      CHECK(equals_definition<std::uint8_t, std::uint8_t>(c, false));
    }
}

TEST_CASE("packed_convolution: inputs of 32 bits with any factor, in 32 bits and in 64") {
  for (const double factor : {1.0 / residual_steps, 0.7 / residual_steps, 0.5, 3.7, 1e-9, 0x1p7}) {
    auto c = random_convolution<std::int32_t>({{16, 4, 5}, 16}, 6);
    c.input_factor = fixed_point::from_real(factor);
    CHECK(equals_definition<std::int32_t, std::int32_t>(c, false));
  }
}

TEST_CASE("packed_convolution: the copy in bytes is that which its reader would make") {
  // In two parts, too. Bytes in the middle of their range, then all and clipped ones; the last
  // factor is used in 64 bits.
  for (const int filters : {16, 40, 3})
    for (const double factor : {1.0 / (1 << 16), 0.7 / (1 << 16), 1.0 / (1 << 12), 0x1p7}) {
      auto reading = random_convolution<std::uint8_t>({{filters, 9, 9}, 16}, 8);
      reading.input_factor = fixed_point::from_real(factor);
      const packed_convolution<V> reader(reading, 0);
      const auto c = random_convolution<std::int32_t>({{16, 9, 9}, filters, 3, 1, 1}, 5);
      for (const bool adds : {false, true})
        for (const std::size_t parts : {1u, 2u})
          CHECK(equals_definition<std::uint8_t, std::int32_t>(c, adds, &reader, parts));
    }
}

TEST_CASE("packed_convolution: residuals and sums with any factor, in 32 bits and in 64") {
  for (const double factor : {1e-9, 1.0, 1.99, 0x1p13, 0x1p15}) {
    auto c = random_convolution<std::int32_t>({{16, 4, 5}, 16}, 6);
    c.residual_factor = fixed_point::from_real(factor);
    CHECK(equals_definition<std::uint8_t, std::int32_t>(c, true));
    c.residual_factor = {1 << 30, 31};
    CHECK(equals_definition<std::uint8_t, std::int32_t>(c, true));
    c = random_convolution<std::int32_t>({{16, 4, 5}, 16}, 6);
    c.factors[3] = fixed_point::from_real(factor * 0x1p7);
    c.bias[3] = 1;
    CHECK(equals_definition<std::uint8_t, std::int32_t>(c, true));
  }
}

TEST_CASE("packed_convolution: the largest bias and the longest sum do not leave their bits") {
  const convolution_problem p{{33000, 1, 1}, 16, 1, 1, 0};
  integer_convolution c = random_convolution<std::int32_t>(p, 9);
  std::fill(c.weights.begin(), c.weights.end(), std::int8_t{127});
  std::fill(c.bias.begin(), c.bias.end(), largest_bias);
  c.bias_shift = 9;
  std::fill(c.factors.begin(), c.factors.end(), fixed_point::from_real(0x1p-10));
  REQUIRE(c.addend<std::int64_t>(0) == largest_addend);
  for (const int zero_point : {0, 255}) {
    c.zero_point = zero_point;
    CHECK(equals_definition<std::uint8_t, std::int32_t>(c, false));
  }
}

TEST_CASE("packed_convolution: by AMX's tiles, in parts, with residuals and copies") {
  const auto reading = [](int filters) {
    auto c = random_convolution<std::uint8_t>({{filters, 9, 9}, 16}, 8);
    c.input_factor = fixed_point::from_real(1.0 / (1 << 16));
    return c;
  };
  for (const convolution_problem& p :
       {convolution_problem{{16, 19, 16}, 40, 3, 1, 1}, convolution_problem{{3, 9, 8}, 16, 3, 2, 1},
        convolution_problem{{80, 7, 7}, 64, 1, 2, 0}, convolution_problem{{64, 7, 7}, 80, 3, 1, 1},
        convolution_problem{{33, 5, 4}, 3, 1, 1, 0}}) {
    const auto bytes = random_convolution<std::uint8_t>(p, 5);
    const auto stream = random_convolution<std::int32_t>(p, 6);
    const auto layer = reading(p.filters);
    const packed_convolution<V> reader(layer, 0);
    for (const std::size_t parts : {1u, 3u}) {
      CHECK(equals_definition<std::uint8_t, std::uint8_t, by_tiles>(bytes, false, nullptr, parts));
      CHECK(equals_definition<std::int32_t, std::uint8_t, by_tiles>(bytes, true, nullptr, parts));
      CHECK(equals_definition<std::uint8_t, std::int32_t, by_tiles>(stream, true, nullptr, parts));
      if (p.filters > 4)
        CHECK(
            equals_definition<std::uint8_t, std::int32_t, by_tiles>(stream, true, &reader, parts));
    }
  }
}
