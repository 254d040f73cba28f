// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics that ranks on one GPU share: the CPU's, forward and backward.
#include <array>
#include <thread>

#include <doctest/doctest.h>

#include "tests/support/deferred.hpp"
#include "tests/support/meeting.hpp"
#include "tests/support/normed_on.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Two ranks with so many samples each, on a device and on the CPU; the second one's numbers are
/// larger and lie elsewhere.
template <Number N, class Epilogue, class D>
void shares_alike(const D& device, const extent& at, std::array<int, 2> samples, into mode) {
  meeting m;
  std::array<meeting::seat, 2> seats{{{&m, 0}, {&m, 1}}};
  std::array<std::thread, 2> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads[r] = std::thread([&, r] {
      normed_on<N, Epilogue, D> bn(device, {at, 0}, 8, samples[r]);
      if (r == 1) {
        for (double& x : bn.want.x) x = exact(nearest<N>(2 * x + 3));
        bn.x = bn.activations(bn.want.x);
      }
      bn.check(mode, {meeting::sum, &seats[r]});
    });
  for (auto& t : threads) t.join();
  CHECK(m.calls[0] == 6);  // three on the CPU, three on the device
  CHECK(m.calls[1] == 6);
}

}  // namespace

TEST_CASE("batch_norm on grids: two ranks that share statistics have the CPU's") {
  shares_alike<float, epilogue::relu>(deferred(0), {10, 3, 5}, {2, 3}, into::overwrite);
  shares_alike<half, epilogue::relu>(deferred(1), {10, 3, 5}, {3, 1}, into::add);
}

TEST_CASE("batch_norm on grids: one value a rank, and a rank without samples") {
  shares_alike<float, epilogue::relu>(deferred(2), {3, 1, 1}, {1, 1}, into::overwrite);
  for (const auto samples : {std::array{0, 2}, std::array{2, 0}})
    shares_alike<float, epilogue::relu>(deferred(3), {3, 2, 2}, samples, into::overwrite);
}
