// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm statistics shared by ranks: as on the CPU, forward and backward.
#include <array>
#include <thread>

#include <doctest/doctest.h>

#include "tests/support/batch_norm_on_device.hpp"
#include "tests/support/deferred.hpp"
#include "tests/support/two_rank_sum.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// Two ranks with these numbers of samples, on a device and on the CPU; the numbers of rank 1 have
/// another scale and mean.
template <Number N, class Epilogue, class D>
void check_shared_statistics(const D& device, const extent& at, std::array<int, 2> samples,
                             write_mode mode) {
  two_rank_sum m;
  std::array<two_rank_sum::participant, 2> seats{{{&m, 0}, {&m, 1}}};
  std::array<std::thread, 2> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads[r] = std::thread([&, r] {
      batch_norm_on_device<N, Epilogue, D> bn(device, {at, 0}, 8, samples[r]);
      if (r == 1) {
        for (double& x : bn.want.x) x = to_double(nearest<N>(2 * x + 3));
        bn.x = bn.activations(bn.want.x);
      }
      bn.check(mode, {two_rank_sum::sum, &seats[r]});
    });
  for (auto& t : threads) t.join();
  CHECK(m.calls[0] == 6);  // three on the CPU, three on the device
  CHECK(m.calls[1] == 6);
}

}  // namespace

TEST_CASE("batch_norm on a GPU, emulated: statistics shared by two ranks equal the CPU's") {
  check_shared_statistics<float, epilogue::relu>(deferred(0), {10, 3, 5}, {2, 3},
                                                 write_mode::overwrite);
  check_shared_statistics<half, epilogue::relu>(deferred(1), {10, 3, 5}, {3, 1}, write_mode::add);
}

TEST_CASE(
    "batch_norm on a GPU, emulated: shared statistics of one value per rank, and of a rank without "
    "samples") {
  check_shared_statistics<float, epilogue::relu>(deferred(2), {3, 1, 1}, {1, 1},
                                                 write_mode::overwrite);
  for (const auto samples : {std::array{0, 2}, std::array{2, 0}})
    check_shared_statistics<float, epilogue::relu>(deferred(3), {3, 2, 2}, samples,
                                                   write_mode::overwrite);
}
