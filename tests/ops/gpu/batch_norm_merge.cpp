// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <concepts>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>

#include "tests/support/device_vectors.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;
using doubles = std::vector<double>;

namespace {

/// The end of a pass over the chunks, whose entries are given.
template <class Merge>
struct merging_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;
  Merge merge;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return 2 * threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    merge.template merge<threads>(b, tiling.merge_place_of(tiling.position_of(b.index())),
                                  b.template shared<double>(2 * threads));
  }
};
template <class Merge>
void run(const batch_norm_tiles& tiling, const Merge& merge, std::uint64_t seed = 1) {
  emulated(seed).make_stream().launch_kernel(tiling.blocks(), merging_kernel<Merge>{tiling, merge});
}
template <class Real>
struct messaging_merge {
  moments_merge<Real> moments;
  double* message;

  template <int Threads, class Block>
  CORDEE_DEVICE void merge(Block& b, const merge_place& at, double* shared) const {
    moments.template merge<Threads>(b, at, shared, message);
  }
};

/// Nine channels, so that the second merging block has one; a group of two samples and one of one.
struct tables {
  static constexpr std::size_t channels = 9, pixels = 2900;
  batch_norm_tiles tiling{{{9, 50, 58}, 2}, 3, 1, 1};
  doubles gamma = normal_numbers(channels, 1), saved = doubles(2 * 5 * channels, 7.0);
  chunk_merge merge = tiling.merge();
  // Entries that no chunk wrote are NaN: reading them shows.
  doubles memory = doubles(merge.numbers(), std::nan(""));
  std::vector<unsigned> arrived = std::vector<unsigned>(merge.counters());
  doubles first_result = doubles(2 * channels), second_result = first_result;

  tables() {
    merge.firsts = memory.data();
    merge.seconds = memory.data() + memory.size() / 2;
    merge.arrived = arrived.data();
  }

  template <class F>
  void each_chunk(const F& f) {
    for (std::size_t g = 0; g < tiling.groups; ++g)
      for (std::size_t k = 0; k < tiling.chunks; ++k)
        for (std::size_t c = 0; c < channels; ++c) f(g, k, c, merge.entry(g, k, c));
  }
  batch_norm_coefficients<double> rows(std::size_t g) { return {saved.data(), channels, g}; }
};

}  // namespace

TEST_CASE("batch_norm_merge: the chunks' moments are merged into the group's mean and variance") {
  for (const std::uint64_t seed : {1u, 2u}) {
    tables t;
    REQUIRE(t.tiling.chunks == 3);
    REQUIRE(t.tiling.rows_of(1, 2) == 0);  // the smaller group has fewer chunks
    const auto x = normal_numbers(3 * tables::pixels * tables::channels, 5);
    const auto value = [&](std::size_t g, std::size_t row, std::size_t c) {
      return 50 + x[(g * 2 * tables::pixels + row) * tables::channels + c];
    };
    t.each_chunk([&](std::size_t g, std::size_t k, std::size_t c, std::size_t entry) {
      const std::size_t n = t.tiling.rows_of(g, k), from = k * t.tiling.rows;
      if (n == 0) return;
      double sum = 0, squares = 0;
      for (std::size_t r = 0; r < n; ++r) sum += value(g, from + r, c);
      for (std::size_t r = 0; r < n; ++r)
        squares += std::pow(value(g, from + r, c) - sum / static_cast<double>(n), 2);
      t.merge.firsts[entry] = sum / static_cast<double>(n);
      t.merge.seconds[entry] = squares;
    });
    run(t.tiling,
        moments_merge<double>{t.merge, t.gamma.data(), t.saved.data(), t.first_result.data(),
                              t.second_result.data()},
        seed);
    for (std::size_t g = 0; g < 2; ++g)
      for (std::size_t c = 0; c < tables::channels; ++c) {
        const std::size_t n = t.tiling.rows_of(g), at = g * tables::channels + c;
        double sum = 0, squares = 0;
        for (std::size_t r = 0; r < n; ++r) sum += value(g, r, c);
        const double mean = sum / static_cast<double>(n);
        for (std::size_t r = 0; r < n; ++r) squares += std::pow(value(g, r, c) - mean, 2);
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        CHECK(t.first_result[at] == doctest::Approx(mean).epsilon(1e-13));
        CHECK(t.second_result[at] ==
              doctest::Approx(squares / static_cast<double>(n - 1)).epsilon(1e-12));
        CHECK(t.rows(g).mean[c] == doctest::Approx(mean).epsilon(1e-13));
        CHECK(t.rows(g).inv_std[c] == doctest::Approx(inverse).epsilon(1e-12));
        CHECK(t.rows(g).scale[c] == doctest::Approx(t.gamma[c] * inverse).epsilon(1e-12));
      }
  }
}

TEST_CASE("batch_norm_merge: neither a large mean nor a first chunk far from the others cancels") {
  // Chunks of the means first, base, base, ... without deviations of their own.
  for (const auto& [first, base] :
       {std::pair(1.0, 0.0), std::pair(-1e8, 3.0), std::pair(1e8 + 1, 1e8)}) {
    tables t;
    t.each_chunk([&](std::size_t g, std::size_t k, std::size_t, std::size_t entry) {
      if (t.tiling.rows_of(g, k) == 0) return;
      t.merge.firsts[entry] = k == 0 ? first : base;
      t.merge.seconds[entry] = 0;
    });
    run(t.tiling, moments_merge<double>{t.merge, t.gamma.data(), t.saved.data(),
                                        t.first_result.data(), t.second_result.data()});
    for (std::size_t g = 0; g < 2; ++g) {
      const auto n = static_cast<double>(t.tiling.rows_of(g)),
                 share = static_cast<double>(t.tiling.rows_of(g, 0)) / n;
      const double squares = n * share * (1 - share) * (first - base) * (first - base);
      for (std::size_t at = g * tables::channels; at < (g + 1) * tables::channels; ++at) {
        CHECK(t.first_result[at] == doctest::Approx(base + share * (first - base)).epsilon(1e-14));
        CHECK(t.second_result[at] == doctest::Approx(squares / (n - 1)).epsilon(1e-14));
      }
    }
  }
}

TEST_CASE(
    "batch_norm_merge: the chunks' sums are merged into the group's and the coefficients of dx") {
  tables t;
  const auto drawn = normal_numbers(t.memory.size(), 2);
  t.each_chunk([&](std::size_t g, std::size_t k, std::size_t, std::size_t entry) {
    if (t.tiling.rows_of(g, k) == 0) return;  // the entry of no rows is not read
    t.merge.firsts[entry] = drawn[entry];
    t.merge.seconds[entry] = drawn[entry + t.memory.size() / 2];
  });
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t c = 0; c < tables::channels; ++c)
      t.rows(g).inv_std[c] = 0.25 + 0.5 * static_cast<double>(c);
  doubles shift(2 * tables::channels, 0.0), scale = shift;
  t.each_chunk([&](std::size_t g, std::size_t k, std::size_t c, std::size_t entry) {
    if (t.tiling.rows_of(g, k) == 0) return;
    shift[g * tables::channels + c] += t.merge.firsts[entry];
    scale[g * tables::channels + c] += t.merge.seconds[entry];
  });
  run(t.tiling, sums_merge<double>{t.merge, t.gamma.data(), t.saved.data(), t.first_result.data(),
                                   t.second_result.data(), false});
  CHECK(max_error_ratio(t.first_result, shift, 1e-13, 1e-13) <= 1);
  CHECK(max_error_ratio(t.second_result, scale, 1e-13, 1e-13) <= 1);
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t c = 0; c < tables::channels; ++c) {
      const double inverse = 0.25 + 0.5 * static_cast<double>(c), a = t.gamma[c] * inverse;
      const auto n = static_cast<double>(t.tiling.rows_of(g));
      const std::size_t at = g * tables::channels + c;
      CHECK(t.rows(g).scale[c] == 7);  // forward's
      CHECK(t.rows(g).shift[c] == doctest::Approx(a * shift[at] / n));
      CHECK(t.rows(g).slope[c] == doctest::Approx(a * scale[at] / n * inverse));
    }
}

TEST_CASE("batch_norm_merge: running statistics move by a tenth towards the mean over the groups") {
  const doubles mean{1, 2, 3, 4, 9, 9}, variance{2, 4, 6, 8, 9, 9};  // three groups, two lanes
  doubles running{10, 20}, spread{1, 1};
  for_each(emulated().make_stream(), 2,
           running_statistics_op<double>{3, 2, mean.data(), variance.data(), running.data(),
                                         spread.data()});
  CHECK(running[0] == doctest::Approx(9 + 0.1 * 13 / 3));
  CHECK(running[1] == doctest::Approx(18 + 0.1 * 5));
  CHECK(spread[0] == doctest::Approx(0.9 + 0.1 * 17 / 3));
  CHECK(spread[1] == doctest::Approx(0.9 + 0.1 * 7));
}

TEST_CASE(
    "batch_norm_merge: a parameter's gradient is the sum over the groups, overwritten or added") {
  const doubles shift{1, 2, 3, 4}, scale{5, 6, 7, 8};
  for (const bool accumulate : {false, true}) {
    doubles dbeta{10, 20}, dgamma{30, 40};
    for_each(emulated().make_stream(), 2,
             parameter_gradient_op<double>{2, 2, shift.data(), scale.data(), dbeta.data(),
                                           dgamma.data(), accumulate});
    CHECK(dbeta == (accumulate ? doubles{14, 26} : doubles{4, 6}));
    CHECK(dgamma == (accumulate ? doubles{42, 54} : doubles{12, 14}));
  }
  doubles dbeta{10}, dgamma{30};  // no samples, no groups
  for_each(
      emulated().make_stream(), 1,
      parameter_gradient_op<double>{0, 1, nullptr, nullptr, dbeta.data(), dgamma.data(), false});
  CHECK(dbeta[0] == 0);
  CHECK(dgamma[0] == 0);
}

TEST_CASE("batch_norm_merge: of one group the merges finish the running statistics and gradients") {
  // Two samples of nine channels, of which the last is padding: one group.
  const batch_norm_tiles tiling({{8, 50, 58}, 0}, 2, 9, 1);
  const std::size_t lanes = tiling.in.lanes();
  REQUIRE(tiling.groups == 1);
  const doubles gamma = normal_numbers(lanes, 1);
  chunk_merge merge = tiling.merge();
  doubles entries = normal_numbers(merge.numbers(), 2), saved(5 * lanes, 0.5), mean(lanes),
          variance(lanes);
  for (std::size_t i = entries.size() / 2; i < entries.size(); ++i) entries[i] *= entries[i];
  std::vector<unsigned> arrived(merge.counters());
  merge.firsts = entries.data();
  merge.seconds = entries.data() + entries.size() / 2;
  merge.arrived = arrived.data();
  for (const bool is_final : {false, true}) {
    doubles running(lanes, 3.0), spread(lanes, 4.0), dbeta(lanes, 5.0), dgamma(lanes, 6.0);
    const running_statistics_op<double> moves{
        1, lanes, mean.data(), variance.data(), running.data(), spread.data()};
    run(tiling, moments_merge<double>{merge, gamma.data(), saved.data(), mean.data(),
                                      variance.data(), moves, is_final ? 8u : 0u});
    for (std::size_t c = 0; c < lanes; ++c) {
      const bool moved = is_final && c < 8;
      CHECK(running[c] == (moved ? doctest::Approx(2.7 + 0.1 * mean[c]) : doctest::Approx(3)));
      CHECK(spread[c] == (moved ? doctest::Approx(3.6 + 0.1 * variance[c]) : doctest::Approx(4)));
    }
    const parameter_gradient_op<double> gradient{
        1, lanes, mean.data(), variance.data(), dbeta.data(), dgamma.data(), true};
    run(tiling, sums_merge<double>{merge, gamma.data(), saved.data(), mean.data(), variance.data(),
                                   false, gradient, is_final ? 8u : 0u});
    for (std::size_t c = 0; c < lanes; ++c) {
      const bool moved = is_final && c < 8;
      CHECK(dbeta[c] == (moved ? 5 + mean[c] : 5));
      CHECK(dgamma[c] == (moved ? 6 + variance[c] : 6));
    }
  }
}

TEST_CASE_TEMPLATE(
    "batch_norm_merge: a message has this rank's part of the sums over ranks, no padding", Real,
    double, float) {
  const batch_norm_tiles tiling({{8, 50, 58}, 0}, 2, 9, 1);  // as above
  const std::size_t lanes = tiling.in.lanes(), channels = 8;
  const double count = 2 * 50 * 58;
  const std::vector<Real> gamma = normal_numbers<Real>(lanes, 1), initial(lanes, Real{3});
  chunk_merge merge = tiling.merge();
  doubles entries = normal_numbers(merge.numbers(), 2), first(lanes), second(lanes);
  std::vector<Real> saved(5 * lanes, Real{0.5}), running = initial, dbeta(lanes, Real{5}),
                                                 dgamma(lanes, Real{6});
  for (std::size_t i = entries.size() / 2; i < entries.size(); ++i) entries[i] *= entries[i];
  std::vector<unsigned> arrived(merge.counters());
  merge.firsts = entries.data();
  merge.seconds = entries.data() + entries.size() / 2;
  merge.arrived = arrived.data();
  // One more than a message has.
  const std::size_t size = moments_message<Real>{channels, nullptr}.size();
  doubles message(size + 1, 7.0), sums(2 * channels + 2, 7.0);
  run(tiling, messaging_merge<Real>{
                  {merge,
                   gamma.data(),
                   saved.data(),
                   first.data(),
                   second.data(),
                   {1, lanes, first.data(), second.data(), running.data(), running.data()},
                   channels},
                  message.data()});
  CHECK(size == (std::same_as<Real, float> ? 2 * channels + 1 : channels + 1));
  for (std::size_t c = 0; c < channels; ++c) {
    CHECK(message[c] == count * first[c]);
    if (std::same_as<Real, float>)
      CHECK(message[channels + c] ==
            doctest::Approx(second[c] * (count - 1) + count * first[c] * first[c]).epsilon(1e-14));
  }
  CHECK(message[size - 1] == count);
  CHECK(message[size] == 7);
  CHECK(running == initial);  // they move by the sums
  run(tiling,
      sums_merge<Real>{merge,
                       gamma.data(),
                       saved.data(),
                       first.data(),
                       second.data(),
                       false,
                       {1, lanes, first.data(), second.data(), dbeta.data(), dgamma.data(), false},
                       channels,
                       sums.data()});
  for (std::size_t c = 0; c < channels; ++c) {
    CHECK(sums[c] == first[c]);
    CHECK(sums[channels + c] == second[c]);
    CHECK(dbeta[c] == static_cast<Real>(first[c]));
    CHECK(dgamma[c] == static_cast<Real>(second[c]));
  }
  CHECK(sums[2 * channels] == count);
  CHECK(sums[2 * channels + 1] == 7);
}
