// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The server's weights by scripted arrivals; its thread is in tests/comm/server.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/server/service.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using cordee::detail::pace;
using cordee::detail::parameter_board;

namespace {

// Three workers in turn descend (x - 3)^2 / 2 at rate 0.2, each from where it was last told.
std::vector<double> descended(const asynchronous& how, int pushes) {
  pace p(3, how);
  parameter_board<double> board(1);
  std::vector<double> told(3, 0), all;
  const auto answer = [&] {
    for (int rank; (rank = p.answer()) >= 0;)
      told[static_cast<std::size_t>(rank)] = board.weights()[0];
  };
  for (int rank = 0; rank < 3; ++rank) p.greet(rank);
  answer();
  for (int k = 0; k < pushes; ++k) {
    const double at = told[static_cast<std::size_t>(k % 3)];
    board.moved()[0] = -0.2 * (at - 3);
    const double share = p.push(k % 3);
    board.gather(share, p.batch(), p.updates());
    answer();
    all.push_back(board.weights()[0]);
  }
  return all;
}
void reaches(const std::vector<double>& x, const std::vector<double>& golden) {
  REQUIRE(x.size() == golden.size());
  for (std::size_t k = 0; k < x.size(); ++k) CHECK(close(x[k], golden[k], 1e-12));
}

}  // namespace

TEST_CASE("golden: stale gradients, plain and divided by their staleness") {
  reaches(descended({}, 6), {0.6, 1.2, 1.8, 2.28, 2.64, 2.88});
  reaches(descended({.staleness_aware = true}, 6), {0.6, 1.2, 1.5, 1.74, 1.92, 2.07});
}

TEST_CASE("of several pushes the mean is applied, once all have come, and nothing twice") {
  // The first two are told 0 twice, the third 0 and 0.6: (0.6 + 0.6 + 0.48) / 3 is the second step.
  reaches(descended({.softsync = 1}, 6), {0, 0, 0.6, 0.6, 0.6, 1.16});
}
