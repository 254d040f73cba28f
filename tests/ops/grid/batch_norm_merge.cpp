// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/batch_norm_merge.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/on_grid.hpp"

using namespace cordee;
using namespace support;
using detail::batch_norm_tiles;
using doubles = std::vector<double>;

namespace {

/// Nine channels, so that a second merging block has one; groups of two samples and of one.
struct tables {
  static constexpr std::size_t channels = 9, pixels = 2900;
  batch_norm_tiles to{{{9, 50, 58}, 2}, 3, 1, 1};
  doubles gamma = normal_numbers(channels, 1), saved = doubles(2 * 5 * channels, 7.0);
  // What no chunk wrote is not a number, and nobody may read it.
  doubles one = doubles(to.table(), std::nan("")), other = one;
  doubles first = doubles(2 * channels), second = first;

  template <class F>
  void each_chunk(const F& f) {
    for (std::size_t g = 0; g < to.groups; ++g)
      for (std::size_t k = 0; k < to.chunks; ++k)
        for (std::size_t c = 0; c < channels; ++c) f(g, k, c, to.entry(g, k, c));
  }
  detail::batch_norm_rows<double> rows(std::size_t g) { return {saved.data(), channels, g}; }
};

}  // namespace

TEST_CASE("batch_norm_merge: the chunks' moments give the group's mean and variance") {
  for (const std::uint64_t seed : {1u, 2u}) {
    tables t;
    REQUIRE(t.to.chunks == 3);
    REQUIRE(t.to.rows_of(1, 2) == 0);  // the smaller group has fewer chunks
    const auto x = normal_numbers(3 * tables::pixels * tables::channels, 5);
    const auto value = [&](std::size_t g, std::size_t row, std::size_t c) {
      return 50 + x[(g * 2 * tables::pixels + row) * tables::channels + c];
    };
    t.each_chunk([&](std::size_t g, std::size_t k, std::size_t c, std::size_t entry) {
      const std::size_t n = t.to.rows_of(g, k), from = k * t.to.rows;
      if (n == 0) return;
      double sum = 0, squares = 0;
      for (std::size_t r = 0; r < n; ++r) sum += value(g, from + r, c);
      for (std::size_t r = 0; r < n; ++r)
        squares += std::pow(value(g, from + r, c) - sum / static_cast<double>(n), 2);
      t.one[entry] = sum / static_cast<double>(n);
      t.other[entry] = squares;
    });
    emulated(seed).open().launch(
        detail::merge_tile::blocks(t.to),
        detail::merge_chunk_moments<double>{t.to, t.gamma.data(), t.saved.data(), t.one.data(),
                                            t.other.data(), t.first.data(), t.second.data()});
    for (std::size_t g = 0; g < 2; ++g)
      for (std::size_t c = 0; c < tables::channels; ++c) {
        const std::size_t n = t.to.rows_of(g), at = g * tables::channels + c;
        double sum = 0, squares = 0;
        for (std::size_t r = 0; r < n; ++r) sum += value(g, r, c);
        const double mean = sum / static_cast<double>(n);
        for (std::size_t r = 0; r < n; ++r) squares += std::pow(value(g, r, c) - mean, 2);
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        CHECK(t.first[at] == doctest::Approx(mean).epsilon(1e-13));
        CHECK(t.second[at] == doctest::Approx(squares / static_cast<double>(n - 1)).epsilon(1e-12));
        CHECK(t.rows(g).centre[c] == doctest::Approx(mean).epsilon(1e-13));
        CHECK(t.rows(g).inverse[c] == doctest::Approx(inverse).epsilon(1e-12));
        CHECK(t.rows(g).scale[c] == doctest::Approx(t.gamma[c] * inverse).epsilon(1e-12));
      }
  }
}

TEST_CASE("batch_norm_merge: the chunks' sums give the group's and the rows of dx") {
  tables t;
  t.one = normal_numbers(t.one.size(), 2);
  t.other = normal_numbers(t.other.size(), 3);
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t c = 0; c < tables::channels; ++c)
      t.rows(g).inverse[c] = 0.25 + 0.5 * static_cast<double>(c);
  doubles shift(2 * tables::channels, 0.0), scale = shift;
  t.each_chunk([&](std::size_t g, std::size_t, std::size_t c, std::size_t entry) {
    shift[g * tables::channels + c] += t.one[entry];
    scale[g * tables::channels + c] += t.other[entry];
  });
  emulated().open().launch(
      detail::merge_tile::blocks(t.to),
      detail::merge_chunk_sums<double>{t.to, t.gamma.data(), t.saved.data(), t.one.data(),
                                       t.other.data(), t.first.data(), t.second.data(), false});
  CHECK(worst(t.first, shift, 1e-13, 1e-13) <= 1);
  CHECK(worst(t.second, scale, 1e-13, 1e-13) <= 1);
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t c = 0; c < tables::channels; ++c) {
      const double inverse = 0.25 + 0.5 * static_cast<double>(c), a = t.gamma[c] * inverse;
      const auto n = static_cast<double>(t.to.rows_of(g));
      const std::size_t at = g * tables::channels + c;
      CHECK(t.rows(g).scale[c] == doctest::Approx(a));
      CHECK(t.rows(g).shift[c] == doctest::Approx(a * shift[at] / n));
      CHECK(t.rows(g).slope[c] == doctest::Approx(a * scale[at] / n * inverse));
    }
}

TEST_CASE("batch_norm_merge: running statistics move by a tenth towards the mean of the groups") {
  const doubles mean{1, 2, 3, 4, 9, 9}, variance{2, 4, 6, 8, 9, 9};  // three groups, two lanes
  doubles running{10, 20}, spread{1, 1};
  for_each(emulated().open(), 2,
           detail::running_step<double>{3, 2, mean.data(), variance.data(), running.data(),
                                        spread.data()});
  CHECK(running[0] == doctest::Approx(9 + 0.1 * 13 / 3));
  CHECK(running[1] == doctest::Approx(18 + 0.1 * 5));
  CHECK(spread[0] == doctest::Approx(0.9 + 0.1 * 17 / 3));
  CHECK(spread[1] == doctest::Approx(0.9 + 0.1 * 7));
}

TEST_CASE("batch_norm_merge: a parameter's gradient is the sum of the groups', or added to it") {
  const doubles shift{1, 2, 3, 4}, scale{5, 6, 7, 8};
  for (const bool adds : {false, true}) {
    doubles dbeta{10, 20}, dgamma{30, 40};
    for_each(emulated().open(), 2,
             detail::gradient_step<double>{2, 2, shift.data(), scale.data(), dbeta.data(),
                                           dgamma.data(), adds});
    CHECK(dbeta == (adds ? doubles{14, 26} : doubles{4, 6}));
    CHECK(dgamma == (adds ? doubles{42, 54} : doubles{12, 14}));
  }
  doubles dbeta{10}, dgamma{30};  // no samples, no groups
  for_each(
      emulated().open(), 1,
      detail::gradient_step<double>{0, 1, nullptr, nullptr, dbeta.data(), dgamma.data(), false});
  CHECK(dbeta[0] == 0);
  CHECK(dgamma[0] == 0);
}
