// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of quantization on a GPU: the CPU's numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/histogram.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/quantize.hpp>

#include "tests/support/device_fixture.hpp"

namespace support {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline const float nan_float = std::nanf("");

/// Equal; NaN equals NaN.
inline bool same_numbers(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return x == y || (x != x && y != y); });
}
inline bool same_numbers(const cordee::detail::ops::affine_quantizer<float>& a,
                         const cordee::detail::ops::affine_quantizer<float>& b) {
  return a.scale == b.scale && a.inverse_scale == b.inverse_scale && a.zero_point == b.zero_point &&
         a.range == b.range;
}

/// Numbers on [-1, 1), some halfway between two quantized values.
inline std::vector<float> reals(std::size_t n, std::uint64_t which) {
  random_sequence draw(5, purpose::test, which, 0);
  std::vector<float> v(n);
  for (float& x : v) {
    x = static_cast<float>(draw.below(1 << 20)) / (1 << 19) - 1;
    if (draw.below(4) == 0) x = (std::floor(x * 100) + 0.5f) / 128;
  }
  return v;
}

template <class D>
void check_recall_input(const device_fixture<D>& at) {
  auto record = at.put(std::vector<cordee::detail::ops::observed_input>(1));
  const auto range = at.put(std::vector{-1.0f, 3.0f, infinity, -infinity});
  const float* const ends = range.span().data;
  recall_input(ends, ends + 1, record.span().data, at.s);
  CHECK(at.get(record)[0].has_range == 1);
  CHECK(at.get(record)[0].quantizer.zero_point == 64);
  CHECK_FALSE(at.get(record)[0].observed.has_values());
  recall_input(ends + 2, ends + 3, record.span().data, at.s);
  CHECK(at.get(record)[0].has_range == 0);
  CHECK(std::isnan(at.get(record)[0].quantizer.scale));
}

/// For any alignment and any numbers.
template <class D>
void check_fake_quantize_and_mask(const device_fixture<D>& at) {
  for (const auto& k :
       {cordee::detail::ops::fit_affine(-0.5f, 0.7f, cordee::detail::ops::unsigned_bytes),
        cordee::detail::ops::fit_affine(0.0f, 0.9f, cordee::detail::ops::unsigned_bytes),
        cordee::detail::ops::fit_affine(infinity, -infinity, cordee::detail::ops::unsigned_bytes)})
    for (const std::size_t from : {0u, 1u}) {
      auto x = reals(1003, 1);
      x[3] = infinity;
      x[4] = -infinity;
      x[5] = nan_float;
      const auto g = reals(x.size(), 2), onto = reals(x.size(), 3);
      const std::size_t n = x.size() - from;
      const auto device_x = at.put(x);
      const auto by = at.put(std::vector{k});
      const float* const in = device_x.span().data + from;

      auto y = onto, masked = g, added = onto;
      fake_quantize(n, x.data() + from, k, y.data() + from, {});
      auto there = at.put(onto);
      fake_quantize(n, in, by.span().data, there.span().data + from, at.s);
      CHECK(same_numbers(at.get(there), y));

      straight_through(n, x.data() + from, k, masked.data() + from, nullptr, {});
      auto device_g = at.put(g);
      straight_through(n, in, by.span().data, device_g.span().data + from, nullptr, at.s);
      CHECK(same_numbers(at.get(device_g), masked));

      auto sent = g;
      straight_through(n, x.data() + from, k, sent.data() + from, added.data() + from, {});
      device_g = at.put(g);
      there = at.put(onto);
      straight_through(n, in, by.span().data, device_g.span().data + from, there.span().data + from,
                       at.s);
      CHECK(same_numbers(at.get(there), added));
    }
}

template <class D>
void check_filters(const device_fixture<D>& at) {
  for (const std::size_t each : {1u, 27u, 300u}) {
    CAPTURE(each);
    constexpr std::size_t filters = 5;
    auto w = reals(filters * each, each);
    std::fill_n(w.begin() + static_cast<std::ptrdiff_t>(each), each, 0.0f);
    w[3 * each] = nan_float;
    w[5 * each - 1] = -infinity;
    std::vector<std::int8_t> q(w.size());
    std::vector<float> left(w.size()), scales(filters);
    cordee::detail::ops::quantize_filters(filters, each, w.data(), q.data(), left.data(),
                                          scales.data(), {});
    const auto device_w = at.put(w);
    auto device_q = at.put(std::vector<std::int8_t>(w.size(), 99));
    auto device_left = at.put(std::vector<float>(w.size(), 99)), device_scales = at.put(scales);
    cordee::detail::ops::quantize_filters(filters, each, device_w.span().data, device_q.span().data,
                                          device_left.span().data, device_scales.span().data, at.s);
    CHECK(at.get(device_q) == q);
    const auto found = at.get(device_left), found_scales = at.get(device_scales);
    for (std::size_t f : {0u, 1u, 2u}) CHECK(found_scales[f] == scales[f]);
    CHECK(std::vector(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(3 * each)) ==
          std::vector(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(3 * each)));
    for (std::size_t f : {3u, 4u}) {
      CHECK(std::isnan(found_scales[f]));
      CHECK(std::isnan(found[f * each]));
    }
  }
}

/// Over several chunks and several calls.
template <class D>
void check_histogram(const device_fixture<D>& at) {
  constexpr std::size_t layer = cordee::detail::ops::histogram_bins::count;
  auto there = at.put(std::vector<double>(2 * layer, 1));
  std::vector<double> wanted(layer, 1);
  for (const std::size_t n : {0u, 7u, 70001u, 1800001u}) {
    auto x = reals(n, n);
    if (n > 6) x[1] = infinity, x[2] = 0, x[3] = -0.0f, x[4] = 1e30f, x[5] = -1e-30f;
    const auto device_x = at.put(x);
    add_to_histogram(n, device_x.span().data, there.span().data + layer, at.s, n / 3);
    cordee::detail::ops::add_to_histogram(n, x.data(), std::span(wanted), {}, n / 3);
    auto range = at.put(std::vector<float>{-1, 1});  // kept: nothing is counted
    const float *low = range.span().data, *high = low + 1;
    add_to_histogram(n, device_x.span().data, there.span().data, at.s, n / 3, {low, high});
  }
  const auto found = at.get(there);
  CHECK(std::vector(found.begin() + layer, found.end()) == wanted);
  for (std::size_t i = 0; i < layer; ++i) CHECK(found[i] == 1);
}

}  // namespace support
