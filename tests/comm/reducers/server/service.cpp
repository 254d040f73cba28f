// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The server's weights by scripted arrivals; its thread is tested in
// tests/comm/reducers/server.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/server/service.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;
using cordee::detail::comm::parameter_store;
using cordee::detail::comm::staleness_clock;

namespace {

// Three workers in turn descend (x - 3)^2 / 2 with learning rate 0.2, each from the weights that it
// last received.
std::vector<double> weights_after(const asynchronous& options, int pushes) {
  staleness_clock clock(3, options);
  parameter_store<double> store(1);
  std::vector<double> received(3, 0), history;
  const auto reply = [&] {
    for (int rank; (rank = clock.pop_ready()) >= 0;)
      received[static_cast<std::size_t>(rank)] = store.weights()[0];
  };
  for (int rank = 0; rank < 3; ++rank) clock.join(rank);
  reply();
  for (int k = 0; k < pushes; ++k) {
    const double x = received[static_cast<std::size_t>(k % 3)];
    store.pushed()[0] = -0.2 * (x - 3);
    const double factor = clock.push(k % 3);
    store.accumulate(factor, clock.batch(), clock.completes_update());
    reply();
    history.push_back(store.weights()[0]);
  }
  return history;
}
void check_close(const std::vector<double>& x, const std::vector<double>& golden) {
  REQUIRE(x.size() == golden.size());
  for (std::size_t k = 0; k < x.size(); ++k) CHECK(close(x[k], golden[k], 1e-12));
}

}  // namespace

TEST_CASE("parameter_store: golden values of stale pushes, plain and divided by their staleness") {
  check_close(weights_after({}, 6), {0.6, 1.2, 1.8, 2.28, 2.64, 2.88});
  check_close(weights_after({.staleness_aware = true}, 6), {0.6, 1.2, 1.5, 1.74, 1.92, 2.07});
}

TEST_CASE(
    "parameter_store: the mean of several pushes is applied once, when the last has arrived") {
  // The first two receive 0 twice, the third 0 and 0.6: (0.6 + 0.6 + 0.48) / 3 is the second step.
  check_close(weights_after({.softsync = 1}, 6), {0, 0, 0.6, 0.6, 0.6, 1.16});
}
