// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm statistics shared by ranks, over the host and as work of a stream: as on the CPU,
// forward and backward, and the law that they are the statistics of all ranks' values.
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/batch_norm_on_device.hpp"
#include "tests/support/deferred.hpp"
#include "tests/support/empty_ranks.hpp"
#include "tests/support/rank_sum.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using doubles = std::vector<double>;

void enqueue_sum(void* rank, double* sums, std::size_t size, const void* stream) {
  static_cast<const deferred::stream*>(stream)->submit([=] { rank_sum::sum(rank, {sums, size}); });
}
statistics_allreduce sum_of(rank_sum::participant& self, bool enqueues) {
  return {rank_sum::sum, &self, enqueues ? enqueue_sum : nullptr};
}

/// Two ranks with these numbers of samples, on a device each, since its work may block, and on the
/// CPU; the numbers of rank 1 have another scale and mean.
template <Number N, class Epilogue>
void check_shared_statistics(std::uint64_t seed, const extent& at, std::array<int, 2> samples,
                             write_mode mode) {
  for (const bool enqueues : {false, true}) {
    rank_sum m(2);
    m.on_each_rank([&](rank_sum::participant& self) {
      const deferred device(seed);
      batch_norm_on_device<N, Epilogue, deferred> bn(device, {at, 0}, 8, samples[self.rank]);
      if (self.rank == 1) {
        for (double& x : bn.want.x) x = to_double(nearest<N>(2 * x + 3));
        bn.x = bn.activations(bn.want.x);
      }
      bn.check(mode, sum_of(self, enqueues));
    });
    // Three on the CPU; on the device one forward, in fp64 two, and one backward.
    CHECK(m.calls == std::vector<int>(2, std::same_as<N, double> ? 6 : 5));
  }
}

/// The values of a channel on all ranks.
struct channel_values {
  doubles x;
  double mean = 0, variance = 0, range = 0, count = 0;  // biased

  void finish() {
    count = static_cast<double>(x.size());
    for (const double one : x) mean += one / count;
    for (const double one : x) variance += (one - mean) * (one - mean) / count;
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    range = *most - *least;
  }
};

/// Channels with ratios of mean and deviation of 1, 1e2 and 1e4, a constant one, one with a NaN of
/// rank 0, and one whose ranks have means of both signs.
constexpr int all_channels = 6, constant_channel = 3, nan_channel = 4;
double value_of(int channel, std::size_t rank, double drawn) {
  const auto r = static_cast<double>(rank);
  const std::array<double, all_channels> values{1 + drawn, -100 + drawn, 1e4 + drawn,
                                                9999,      drawn,        40 * (r - 1) + drawn};
  return values[static_cast<std::size_t>(channel)];
}

/// So many ranks, of which the middle one of several has no samples, have the statistics of all
/// values, in fp64 and two passes.
template <Number N>
void check_statistics_of_all_values(std::size_t ranks, bool enqueues) {
  CAPTURE(ranks);
  CAPTURE(enqueues);
  constexpr int V = 8;
  const extent at{all_channels, 3, 5};
  const auto samples_of = [&](std::size_t r) {
    return ranks > 1 && r == ranks / 2 ? 0 : static_cast<int>(2 + r % 3);
  };
  std::vector<doubles> x(ranks), saved(ranks), mean(ranks), variance(ranks);
  std::array<channel_values, all_channels> channels;
  for (std::size_t r = 0; r < ranks; ++r) {
    x[r] = normal_numbers(static_cast<std::size_t>(samples_of(r)) * at.size(), r + 1);
    for (std::size_t i = 0; i < x[r].size(); ++i) {
      const auto c = static_cast<int>(i / at.pixels() % all_channels);
      x[r][i] = to_double(nearest<N>(value_of(c, r, x[r][i])));
      if (c == nan_channel && r == 0 && i / at.pixels() < all_channels) x[r][i] = std::nan("");
      channels[static_cast<std::size_t>(c)].x.push_back(x[r][i]);
    }
  }
  for (channel_values& of : channels) of.finish();
  rank_sum m(ranks);
  m.on_each_rank([&](rank_sum::participant& self) {
    const std::size_t r = self.rank;
    batch_norm_on_device<N, epilogue::store, deferred> bn(deferred(r), {at, 0}, V, samples_of(r));
    bn.x = bn.activations(x[r]);
    bn.mean = {bn.device, bn.s, std::vector<float>(all_channels, 2.0F)};
    bn.variance = {bn.device, bn.s, std::vector<float>(all_channels, 3.0F)};
    bn.forward(sum_of(self, enqueues));
    saved[r] = to_doubles(bn.saved.read());
    mean[r] = to_doubles(bn.mean.read());
    variance[r] = to_doubles(bn.variance.read());
  });
  CHECK(m.calls == std::vector<int>(ranks, 1));
  // A chunk's sums of x - x[0] and of its square are in fp32, of at most 4 numbers on each thread
  // and 8 halvings: k roundings of what the range bounds. With d off by 3k + 2 of them, and v by
  // twice the means' k, v is off by 5k + 2; fp64's part is moments_message's.
  constexpr double w = 0x1p-24, u = 0x1p-53, k = 4 + 8 + 2;
  for (std::size_t r = 0; r < ranks; ++r) {
    CAPTURE(r);
    if (samples_of(r) == 0) {  // which takes over what is finite alone
      CHECK(mean[r][nan_channel] == 2);
      CHECK(variance[r][nan_channel] == 3);
      mean[r][nan_channel] = variance[r][nan_channel] = std::nan("");
    }
    CHECK(max_error_ratio(saved[r], saved[0], 0, 0) == 0);  // bit by bit the same on all ranks
    CHECK(max_error_ratio(mean[r], mean[0], 0, 0) == 0);
    CHECK(max_error_ratio(variance[r], variance[0], 0, 0) == 0);
    const batch_norm_coefficients<double> row(saved[r].data(), V, 0);
    for (std::size_t c = 0; c < all_channels; ++c) {
      CAPTURE(c);
      const channel_values& of = channels[c];
      if (c == nan_channel) {
        for (const double one : {row.mean[c], row.inv_std[c], mean[r][c], variance[r][c]})
          CHECK(std::isnan(one));
        continue;
      }
      const double square = of.mean * of.mean + of.variance, p = static_cast<double>(ranks),
                   mean_error = k * w * of.range + (p + 1) * u * std::sqrt(square),
                   error = (5 * k + 2) * w * of.range * of.range + (3 * p + 7) * u * square,
                   least = std::max(of.variance - error, 0.0), most = of.variance + error,
                   epsilon = batch_norm_problem::epsilon;
      // Rounded to fp32 once, but for what fp64's root and division add.
      CHECK(std::abs(row.mean[c] - of.mean) <= mean_error + w * std::abs(of.mean));
      CHECK(row.inv_std[c] <= (1 + 2 * w) / std::sqrt(least + epsilon));
      CHECK(row.inv_std[c] >= (1 - 2 * w) / std::sqrt(most + epsilon));
      const double unbiased = of.count / (of.count - 1);
      CHECK(std::abs(mean[r][c] - (1.8 + 0.1 * of.mean)) <=
            0.1 * mean_error + 2 * w * std::abs(1.8 + 0.1 * of.mean));
      CHECK(std::abs(variance[r][c] - (2.7 + 0.1 * unbiased * of.variance)) <=
            0.1 * unbiased * error + 2 * w * (2.7 + 0.1 * unbiased * most));
    }
    CHECK(row.inv_std[constant_channel] > 0.5 / std::sqrt(batch_norm_problem::epsilon));
  }
}

template <Number N>
void check_empty_ranks_in(const extent& at, bool enqueues) {
  using real = cordee::detail::precision::wide<N>;
  const auto channels = static_cast<std::size_t>(at.channels);
  CAPTURE(enqueues);
  check_empty_ranks(
      {doubles(channels, 2.0), doubles(channels, 3.0)},
      [&](std::size_t seed, int samples, rank_sum::participant& seat) {
        batch_norm_on_device<N, epilogue::relu, deferred> bn(deferred(seed), {at, 0}, 8, samples);
        bn.x = bn.activations(representable_normals<N>(bn.dy.size(), seed + 20));
        bn.mean = {bn.device, bn.s, std::vector<real>(channels, real{2})};
        bn.variance = {bn.device, bn.s, std::vector<real>(channels, real{3})};
        bn.forward(sum_of(seat, enqueues));
        bn.backward(write_mode::overwrite, true, sum_of(seat, enqueues));
        if (samples == 0) CHECK(to_doubles(bn.dgamma.read()) == doubles(channels));
        return running_statistics{to_doubles(bn.mean.read()), to_doubles(bn.variance.read())};
      });
}

}  // namespace

TEST_CASE("batch_norm on a GPU, emulated: statistics shared by two ranks equal the CPU's") {
  check_shared_statistics<float, epilogue::relu>(0, {10, 3, 5}, {2, 3}, write_mode::overwrite);
  check_shared_statistics<half, epilogue::relu>(1, {10, 3, 5}, {3, 1}, write_mode::add);
  check_shared_statistics<double, epilogue::relu>(2, {10, 3, 5}, {2, 3}, write_mode::overwrite);
}

TEST_CASE(
    "batch_norm on a GPU, emulated: shared statistics of one value per rank, and of a rank without "
    "samples") {
  check_shared_statistics<float, epilogue::relu>(2, {3, 1, 1}, {1, 1}, write_mode::overwrite);
  for (const auto samples : {std::array{0, 2}, std::array{2, 0}}) {
    check_shared_statistics<float, epilogue::relu>(3, {3, 2, 2}, samples, write_mode::overwrite);
    check_shared_statistics<double, epilogue::relu>(3, {3, 2, 2}, samples, write_mode::overwrite);
  }
}

TEST_CASE("batch_norm on a GPU, emulated: statistics over ranks are those of all their values") {
  for (const bool enqueues : {false, true})
    for (const std::size_t ranks : {1U, 2U, 3U, 5U, 8U}) {
      check_statistics_of_all_values<float>(ranks, enqueues);
      check_statistics_of_all_values<half>(ranks, enqueues);
    }
}

TEST_CASE("batch_norm on a GPU, emulated: ranks with and without samples move statistics alike") {
  for (const bool enqueues : {false, true})
    for (const extent& at : {extent{10, 3, 5}, extent{9, 1, 1}}) {
      check_empty_ranks_in<float>(at, enqueues);
      check_empty_ranks_in<half>(at, enqueues);
      check_empty_ranks_in<double>(at, enqueues);
    }
}

TEST_CASE("batch_norm on a GPU, emulated: the host waits for no statistic that is enqueued") {
  const deferred device(0);
  batch_norm_on_device<float, epilogue::relu, deferred> bn(device, {{10, 3, 5}, 0}, 8, 2);
  const auto nothing = [](void* calls, double*, std::size_t, const void*) {
    ++*static_cast<int*>(calls);
  };
  int calls = 0;
  const statistics_allreduce shared{nullptr, &calls, nothing};
  const std::size_t waits = device.waits();
  bn.forward(shared);
  bn.backward(write_mode::add, true, shared);
  CHECK(device.waits() == waits);
  CHECK(calls == 2);
  CHECK_FALSE(shared.blocks_host());
}
