// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of a quantized input on a GPU: the CPU's numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/gpu/quantized_input.hpp>

#include "tests/ops/gpu/quantize.hpp"

namespace support {

namespace ops = cordee::detail::ops;

/// The scaling fitted in training, the record's range and the bytes equal the CPU's.
template <class D>
void check_quantize_input(const device_fixture<D>& at) {
  const auto note = [&](const std::vector<float>& x, const ops::real_range& running,
                        ops::observed_input from) {
    auto record = at.put(std::vector{from});
    const auto there = at.put(x), range = at.put(std::vector{running.low, running.high});
    auto bytes = at.put(std::vector<std::uint8_t>(x.size() + 9, 77));
    const float* const ends = range.span().data;
    quantize_input(x.size(), there.span().data,
                   {bytes.span().data, ends, ends + 1, record.span().data}, at.s);
    const ops::observed_input found = at.get(record)[0];
    if (!std::isnan(found.quantizer.scale)) {
      std::vector<std::uint8_t> wanted(x.size() + 9, 77);
      for (std::size_t i = 0; i < x.size(); ++i)
        wanted[i] = static_cast<std::uint8_t>(found.quantizer.quantize(x[i]));
      CHECK(at.get(bytes) == wanted);
    }
    return found;
  };
  const ops::real_range running{-0.75f, 0.5f};
  for (const std::size_t n : {1u, 5u, 300u, 16384u, 40001u}) {
    CAPTURE(n);
    const auto x = reals(n, n);
    const ops::real_range own = ops::range_of(n, x.data(), {});
    const ops::observed_input first = note(x, {}, {}),
                              later = note(x, running, {{-0.25f, 3}, {}, 0});
    CHECK(first.observed == own);
    CHECK(same_numbers(first.quantizer, ops::fit_affine(own.low, own.high, ops::unsigned_bytes)));
    CHECK(later.observed == ops::real_range{std::min(own.low, -0.25f), 3});
    CHECK(same_numbers(later.quantizer,
                       ops::fit_affine(running.low, running.high, ops::unsigned_bytes)));
    for (const float bad : {infinity, -infinity, nan_float}) {
      auto with_nonfinite = x;
      with_nonfinite[n / 2] = bad;
      const ops::observed_input found = note(with_nonfinite, running, {});
      CHECK(std::isnan(found.quantizer.scale));
      CHECK_FALSE(found.observed.has_values());
    }
  }
  // Zeros that pad blocks of channels are no data, wherever they lie.
  auto padded = reals(40001, 1);
  for (float& v : padded) v = std::abs(v) + 0.0625f;
  const ops::real_range data = ops::range_of(padded.size(), padded.data(), {});
  for (std::size_t i = 0; i < 20000; ++i)
    padded.insert(padded.begin() + static_cast<std::ptrdiff_t>(2 * i), 0.0f);
  const auto observed = [&](std::size_t filling) {
    auto record = at.put(std::vector{ops::observed_input{}});
    const auto there = at.put(padded), range = at.put(std::vector{running.low, running.high});
    auto bytes = at.put(std::vector<std::uint8_t>(padded.size()));
    const float* const ends = range.span().data;
    quantize_input(padded.size(), there.span().data,
                   {bytes.span().data, ends, ends + 1, record.span().data, filling}, at.s);
    return at.get(record)[0].observed;
  };
  CHECK(observed(20000) == data);
  CHECK(observed(19999) == ops::real_range{0, data.high});
  CHECK(observed(0) == ops::real_range{0, data.high});

  const ops::observed_input nothing = note({}, running, {{0, 1}, {}, 0});
  CHECK(nothing.observed == ops::real_range{0, 1});
}

}  // namespace support
