// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/threads/round_table.hpp>

using namespace cordee;
using namespace cordee::detail;
using namespace std::chrono_literals;

namespace {

/// f(rank) on a thread each.
template <class F>
void with_ranks(int ranks, const F& f) {
  std::vector<std::thread> team;
  for (int rank = 0; rank < ranks; ++rank) team.emplace_back([&f, rank] { f(rank); });
  for (std::thread& t : team) t.join();
}
constexpr auto never = [] { return false; };

}  // namespace

TEST_CASE_TEMPLATE("round_table: both ways give the mean, summed in the order of ranks", Real,
                   float, double) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t n : {1u, 7u, 64u, 999u}) {
      round_table table(ranks);
      std::vector<std::vector<Real>> copied, sliced;
      std::vector<Real> wanted(n);
      for (int r = 0; r < ranks; ++r) {
        std::vector<Real> x(n);
        for (std::size_t i = 0; i < n; ++i)
          x[i] = Real(1) / static_cast<Real>(3 + r + static_cast<int>(i));
        for (std::size_t i = 0; i < n; ++i) wanted[i] = r == 0 ? x[i] : wanted[i] + x[i];
        copied.push_back(x);
        sliced.push_back(x);
      }
      for (Real& x : wanted) x /= static_cast<Real>(ranks);
      with_ranks(ranks, [&](int r) {
        auto& x = copied[static_cast<std::size_t>(r)];
        auto& y = sliced[static_cast<std::size_t>(r)];
        table.lay_out(r, x.data(), n);
        (void)table.meet(r, 30s, never);
        table.mean_of_copies(r, x.data(), n);
        table.lay_out(r, y.data(), n);  // the table is clean for a second meeting
        (void)table.meet(r, 30s, never);
        table.mean_of_slices<Real>(r, n);
        table.part(r);
      });
      for (const auto& x : copied) CHECK(x == wanted);
      for (const auto& y : sliced) CHECK(y == wanted);
    }
}

TEST_CASE("round_table: it is known what everybody brought") {
  round_table table(3);
  std::vector<double> x(5);
  std::vector<int> right(3);
  with_ranks(3, [&](int r) {
    table.lay_out(r, x.data(), static_cast<std::size_t>(r));
    bool held = table.meet(r, 30s, never);
    for (int other = 0; other < 3; ++other)
      held = held && table.brought(r, other) == static_cast<std::size_t>(other) * sizeof(double);
    table.part(r);
    right[static_cast<std::size_t>(r)] = held;
  });
  CHECK(right == std::vector<int>{1, 1, 1});
}

TEST_CASE("round_table: who waits for some who do not come gives up, and says for all of them") {
  round_table table(4);
  double x = 0;
  for (const int rank : {0, 2}) table.lay_out(rank, &x, 1);
  CHECK_FALSE(table.meet(2, 20ms, never));
  CHECK(table.missing(2) == std::vector{0, 1, 3});
  CHECK_FALSE(table.meet(0, 20ms, never));
  CHECK(table.missing(0) == std::vector{1, 3});  // rank 2 has been there
  CHECK_FALSE(table.meet(0, 30s, [] { return true; }));
}

TEST_CASE("round_table: short is what fits the copies") {
  CHECK(round_table::is_short(8192));
  CHECK_FALSE(round_table::is_short(8193));
}
