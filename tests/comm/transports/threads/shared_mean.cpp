// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/shared_mean.hpp>
#include <cordee/device/cpu.hpp>

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;

namespace {

/// f(rank) on one thread for each rank.
template <class F>
void with_ranks(int ranks, const F& f) {
  std::vector<std::thread> team;
  for (int rank = 0; rank < ranks; ++rank) team.emplace_back([&f, rank] { f(rank); });
  for (std::thread& t : team) t.join();
}
constexpr auto never_stop = [] { return false; };

}  // namespace

TEST_CASE_TEMPLATE("shared_mean: copies and slices give the mean, summed in the order of ranks",
                   Real, float, double) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t n : {1u, 7u, 64u, 999u}) {
      shared_mean mean(ranks);
      std::vector<std::vector<Real>> copied, sliced;
      std::vector<Real> expected(n);
      for (int r = 0; r < ranks; ++r) {
        std::vector<Real> x(n);
        for (std::size_t i = 0; i < n; ++i)
          x[i] = Real(1) / static_cast<Real>(3 + r + static_cast<int>(i));
        for (std::size_t i = 0; i < n; ++i) expected[i] = r == 0 ? x[i] : expected[i] + x[i];
        copied.push_back(x);
        sliced.push_back(x);
      }
      for (Real& x : expected) x /= static_cast<Real>(ranks);
      with_ranks(ranks, [&](int r) {
        auto& x = copied[static_cast<std::size_t>(r)];
        auto& y = sliced[static_cast<std::size_t>(r)];
        mean.publish(r, x.data(), n);
        (void)mean.enter_barrier(r, 30s, never_stop);
        mean.mean_of_copies(r, x.data(), n);
        mean.publish(r, y.data(), n);  // buffers are reused for a second barrier
        (void)mean.enter_barrier(r, 30s, never_stop);
        mean.mean_of_slices<Real>(r, n);
        mean.exit_barrier(r);
      });
      for (const auto& x : copied) CHECK(x == expected);
      for (const auto& y : sliced) CHECK(y == expected);
    }
}

TEST_CASE("shared_mean: a range's mean is in its owner's vector alone, and ranges are copied") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t n : {0u, 1u, 63u, 64u, 999u}) {
      shared_mean mean(ranks);
      std::vector<std::vector<float>> own;
      for (int r = 0; r < ranks; ++r) own.emplace_back(n, 1 / static_cast<float>(3 + r));
      const auto before = own;
      float expected = before[0].empty() ? 0 : before[0][0];
      for (int r = 1; r < ranks && n > 0; ++r) expected += before[static_cast<std::size_t>(r)][0];
      expected /= static_cast<float>(ranks);
      const auto range_of = [&](int k) { return balanced_range(n, k, ranks); };
      const auto at_barrier = [&](int r, const auto& f) {
        auto& x = own[static_cast<std::size_t>(r)];
        mean.publish_pointer(r, x.data(), n);
        (void)mean.enter_barrier(r, 30s, never_stop);
        f(x);
        mean.exit_barrier(r);
      };
      with_ranks(ranks, [&](int r) {
        at_barrier(r,
                   [&](auto& x) { mean.mean_of_range(r, range_of(r), x.data(), cpu::stream{}); });
      });
      for (int r = 0; r < ranks; ++r) {
        auto x = before[static_cast<std::size_t>(r)];
        std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(range_of(r).begin), range_of(r).size(),
                    expected);
        CHECK(own[static_cast<std::size_t>(r)] == x);
      }
      with_ranks(ranks, [&](int r) {
        at_barrier(r, [&](auto& x) {
          for (int k = 0; k < ranks; ++k)
            if (k != r) mean.copy_range(r, k, range_of(k), x.data(), cpu::stream{});
        });
      });
      for (const auto& x : own) CHECK(x == std::vector<float>(n, expected));
    }
}

TEST_CASE("shared_mean: every rank reads how many bytes each rank has published") {
  shared_mean mean(3);
  std::vector<double> x(5);
  std::vector<int> correct(3);
  with_ranks(3, [&](int r) {
    mean.publish(r, x.data(), static_cast<std::size_t>(r));
    bool matches = mean.enter_barrier(r, 30s, never_stop);
    for (int other = 0; other < 3; ++other)
      matches = matches &&
                mean.published_bytes(r, other) == static_cast<std::size_t>(other) * sizeof(double);
    mean.exit_barrier(r);
    correct[static_cast<std::size_t>(r)] = matches;
  });
  CHECK(correct == std::vector<int>{1, 1, 1});
}

TEST_CASE("shared_mean: enter_barrier times out, and missing returns all ranks that did not come") {
  shared_mean mean(4);
  double x = 0;
  for (const int rank : {0, 2}) mean.publish(rank, &x, 1);
  CHECK_FALSE(mean.enter_barrier(2, 20ms, never_stop));
  CHECK(mean.missing(2) == std::vector{0, 1, 3});
  CHECK_FALSE(mean.enter_barrier(0, 20ms, never_stop));
  CHECK(mean.missing(0) == std::vector{1, 3});  // rank 2 came, and timed out
  CHECK_FALSE(mean.enter_barrier(0, 30s, [] { return true; }));
}

TEST_CASE("shared_mean: is_short is what fits the copies") {
  CHECK(shared_mean::is_short(8192));
  CHECK_FALSE(shared_mean::is_short(8193));
}
