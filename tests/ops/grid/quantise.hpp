// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What quantisation on grids promises: the CPU's numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/histogram.hpp>
#include <cordee/ops/grid/quantise.hpp>
#include <cordee/ops/quantise_lanes.hpp>

#include "tests/support/stored.hpp"

namespace support {

inline constexpr float endless = std::numeric_limits<float>::infinity();
inline const float no_float = std::nanf("");

/// The same numbers; what is none is none in both.
inline bool alike(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return x == y || (x != x && y != y); });
}
inline bool alike(const affine<float>& a, const affine<float>& b) {
  return a.scale == b.scale && a.inverse == b.inverse && a.zero == b.zero && a.to == b.to;
}

/// Numbers on [-1, 1), some of them halfway between two that can be said.
inline std::vector<float> reals(std::size_t n, std::uint64_t which) {
  random_sequence draw(5, purpose::test, which, 0);
  std::vector<float> v(n);
  for (float& x : v) {
    x = static_cast<float>(draw.below(1 << 20)) / (1 << 19) - 1;
    if (draw.below(4) == 0) x = (std::floor(x * 100) + 0.5f) / 128;
  }
  return v;
}

/// What quantises x in training, and what the record says then, is what the CPU's rule says.
template <class D>
void noting_is_the_cpus(const bench_on<D>& at) {
  const auto note = [&](const std::vector<float>& x, const real_range& running, input_record from) {
    auto record = at.put(std::vector{from});
    const auto there = at.put(x), range = at.put(std::vector{running.low, running.high});
    const float* const ends = range.span().data;
    note_input(x.size(), there.span().data, ends, ends + 1, record.span().data, at.s);
    return at.get(record)[0];
  };
  const real_range running{-0.75f, 0.5f};
  for (const std::size_t n : {1u, 5u, 300u, 16384u, 40001u}) {
    CAPTURE(n);
    const auto x = reals(n, n);
    const real_range own = range_of(n, x.data(), {});
    const input_record first = note(x, {}, {}), later = note(x, running, {{-0.25f, 3}, {}, 0});
    CHECK(first.seen == own);
    CHECK(alike(first.by, fit_affine(own.low, own.high, unsigned_bytes)));
    CHECK(later.seen == real_range{std::min(own.low, -0.25f), 3});
    CHECK(alike(later.by, fit_affine(running.low, running.high, unsigned_bytes)));
    for (const float bad : {endless, -endless, no_float}) {
      auto spoilt = x;
      spoilt[n / 2] = bad;
      const input_record found = note(spoilt, running, {});
      CHECK(std::isnan(found.by.scale));
      CHECK_FALSE(found.seen.seen());
    }
  }
  const input_record nothing = note({}, running, {});
  CHECK(nothing.by.scale == fit_affine(running.low, running.high, unsigned_bytes).scale);
  CHECK_FALSE(nothing.seen.seen());
}

template <class D>
void recalling_says_whether_there_was_a_range(const bench_on<D>& at) {
  auto record = at.put(std::vector<input_record>(1));
  const auto range = at.put(std::vector{-1.0f, 3.0f, endless, -endless});
  const float* const ends = range.span().data;
  recall_input(ends, ends + 1, record.span().data, at.s);
  CHECK(at.get(record)[0].known == 1);
  CHECK(at.get(record)[0].by.zero == 64);
  CHECK_FALSE(at.get(record)[0].seen.seen());
  recall_input(ends + 2, ends + 3, record.span().data, at.s);
  CHECK(at.get(record)[0].known == 0);
  CHECK(std::isnan(at.get(record)[0].by.scale));
}

/// Wherever memory begins, whatever the numbers are.
template <class D>
void simulation_and_mask_are_the_cpus(const bench_on<D>& at) {
  for (const auto& k :
       {fit_affine(-0.5f, 0.7f, unsigned_bytes), fit_affine(0.0f, 0.9f, unsigned_bytes),
        fit_affine(endless, -endless, unsigned_bytes)})
    for (const std::size_t from : {0u, 1u}) {
      auto x = reals(1003, 1);
      x[3] = endless;
      x[4] = -endless;
      x[5] = no_float;
      const auto g = reals(x.size(), 2), onto = reals(x.size(), 3);
      const std::size_t n = x.size() - from;
      const auto there_x = at.put(x);
      const auto by = at.put(std::vector{k});
      const float* const in = there_x.span().data + from;

      auto y = onto, masked = g, added = onto;
      simulate(n, x.data() + from, k, y.data() + from, {});
      auto there = at.put(onto);
      simulate(n, in, by.span().data, there.span().data + from, at.s);
      CHECK(alike(at.get(there), y));

      pass_straight(n, x.data() + from, k, masked.data() + from, nullptr, {});
      auto there_g = at.put(g);
      pass_straight(n, in, by.span().data, there_g.span().data + from, nullptr, at.s);
      CHECK(alike(at.get(there_g), masked));

      auto sent = g;
      pass_straight(n, x.data() + from, k, sent.data() + from, added.data() + from, {});
      there_g = at.put(g);
      there = at.put(onto);
      pass_straight(n, in, by.span().data, there_g.span().data + from, there.span().data + from,
                    at.s);
      CHECK(alike(at.get(there), added));
    }
}

template <class D>
void filters_are_the_cpus(const bench_on<D>& at) {
  for (const std::size_t each : {1u, 27u, 300u}) {
    CAPTURE(each);
    constexpr std::size_t filters = 5;
    auto w = reals(filters * each, each);
    std::fill_n(w.begin() + static_cast<std::ptrdiff_t>(each), each, 0.0f);
    w[3 * each] = no_float;
    w[5 * each - 1] = -endless;
    std::vector<std::int8_t> q(w.size());
    std::vector<float> left(w.size()), scales(filters);
    quantise_filters(filters, each, w.data(), q.data(), left.data(), scales.data(), {});
    const auto there_w = at.put(w);
    auto there_q = at.put(std::vector<std::int8_t>(w.size(), 99));
    auto there_left = at.put(std::vector<float>(w.size(), 99)), there_scales = at.put(scales);
    quantise_filters(filters, each, there_w.span().data, there_q.span().data,
                     there_left.span().data, there_scales.span().data, at.s);
    CHECK(at.get(there_q) == q);
    const auto found = at.get(there_left), found_scales = at.get(there_scales);
    for (std::size_t f : {0u, 1u, 2u}) CHECK(found_scales[f] == scales[f]);
    CHECK(std::vector(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(3 * each)) ==
          std::vector(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(3 * each)));
    for (std::size_t f : {3u, 4u}) {
      CHECK(std::isnan(found_scales[f]));
      CHECK(std::isnan(found[f * each]));
    }
  }
}

/// Over chunks and passes.
template <class D>
void counts_are_the_cpus(const bench_on<D>& at) {
  constexpr std::size_t layer = number_bins::count;
  auto there = at.put(std::vector<double>(2 * layer, 1));
  std::vector<double> wanted(layer, 1);
  for (const std::size_t n : {0u, 7u, 70001u}) {
    auto x = reals(n, n);
    if (n > 6) x[1] = endless, x[2] = 0, x[3] = -0.0f, x[4] = 1e30f, x[5] = -1e-30f;
    const auto there_x = at.put(x);
    count_numbers(n, there_x.span().data, there.span().data + layer, at.s, n / 3);
    count_numbers(n, x.data(), std::span(wanted), {}, n / 3);
  }
  const auto found = at.get(there);
  CHECK(std::vector(found.begin() + layer, found.end()) == wanted);
  for (std::size_t i = 0; i < layer; ++i) CHECK(found[i] == 1);
}

}  // namespace support
