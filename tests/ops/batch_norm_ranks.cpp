// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics that ranks share.
#include <array>
#include <cmath>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/batch_norm.hpp>

#include "tests/support/meeting.hpp"
#include "tests/support/normed.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Both ranks forward and backward, meeting at every sum.
std::array<std::vector<double>, 2> together(std::array<one_channel*, 2> ranks,
                                            std::array<std::vector<double>, 2> dy, meeting& m) {
  std::array<std::vector<double>, 2> dx;
  std::array<meeting::seat, 2> seats{{{&m, 0}, {&m, 1}}};
  std::array<std::thread, 2> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads[r] = std::thread([&, r] {
      ranks[r]->combine = {meeting::sum, &seats[r]};
      ranks[r]->forward();
      dx[r] = ranks[r]->backward(dy[r]);
    });
  for (auto& t : threads) t.join();
  return dx;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-10);
}

}  // namespace

TEST_CASE("batch_norm: two ranks that combine give the golden values of section 36.4") {
  one_channel first = golden({1, 2, 4}), second = golden({0, 5, 6});
  meeting m;
  const auto dx = together({&first, &second}, {{{.1, -.2, .3}, {.5, -.1, .2}}}, m);
  check_close(first.y, {-1.18872866174, -0.494364330868, 0.894364330868});
  check_close(second.y, {-1.8830929926, 1.58872866174, 2.2830929926});
  check_close(dx[0], {-0.0628233544355, -0.251293715326, 0.135566326848});
  check_close(dx[1], {0.195083439542, -0.122340467129, 0.105807770501});
  CHECK(first.dbeta[0] == doctest::Approx(.2));  // local: the reducer adds them
  CHECK(second.dbeta[0] == doctest::Approx(.6));
  CHECK(first.dgamma[0] + second.dgamma[0] == doctest::Approx(-0.37032764313).epsilon(1e-10));
  for (const one_channel* r : {&first, &second}) {
    CHECK(r->mean[0] == doctest::Approx(0.1 * 3));
    CHECK(r->variance[0] == doctest::Approx(0.9 + 0.1 * 5.6));
  }
}

TEST_CASE("batch_norm: one rank alone gives the local golden statistics of section 36.4") {
  one_channel first = golden({1, 2, 4}), second = golden({0, 5, 6});
  first.forward();
  second.forward();
  CHECK(first.mean[0] == doctest::Approx(0.1 * 7 / 3));
  CHECK(second.mean[0] == doctest::Approx(0.1 * 11 / 3));
  CHECK(first.variance[0] == doctest::Approx(0.9 + 0.1 * 1.5555556 * 1.5).epsilon(1e-8));
  CHECK(second.variance[0] == doctest::Approx(0.9 + 0.1 * 6.8888889 * 1.5).epsilon(1e-8));
}

TEST_CASE("batch_norm: a rank without samples meets the others and changes nothing") {
  one_channel alone = golden({1, 2, 4}), beside = golden({1, 2, 4}), empty = golden({});
  std::vector<double> dy{.1, -.2, .3};
  alone.forward();
  const auto dx = alone.backward(dy);
  meeting m;
  empty.dgamma = empty.dbeta = {5};
  const auto both = together({&beside, &empty}, {{{.1, -.2, .3}, {}}}, m);
  CHECK(m.calls[0] == m.calls[1]);
  check_close(alone.y, beside.y);
  check_close(dx, both[0]);
  CHECK(empty.mean[0] == 0);
  CHECK(empty.variance[0] == 1);
  CHECK(empty.dgamma[0] == 0);  // overwritten by the sum of nothing
  CHECK(empty.dbeta[0] == 0);
}

TEST_CASE("batch_norm: sharing statistics and ghost groups exclude each other") {
  normed<double, 1, epilogue::store> bn({{1, 1, 1}, 2}, 4);
  bn.combine = {[](void*, std::span<double>) {}, nullptr};
  CHECK_THROWS_AS(bn.forward(), misuse);
}
