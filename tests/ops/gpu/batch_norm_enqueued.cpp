// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm statistics shared by ranks as work of a stream: as on the CPU, forward and backward.
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

void enqueue_sum(void* rank, double* sums, std::size_t size, const void* stream) {
  static_cast<const deferred::stream*>(stream)->submit([=] {
    two_rank_sum::sum(rank, {sums, size});
  });
}

/// As in batch_norm_ranks.cpp; each rank has a device of its own, since its work blocks.
template <Number N, class Epilogue>
void check_enqueued_statistics(std::uint64_t seed, const extent& at, std::array<int, 2> samples,
                               write_mode mode) {
  two_rank_sum m;
  std::array<two_rank_sum::participant, 2> seats{{{&m, 0}, {&m, 1}}};
  std::array<std::thread, 2> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads[r] = std::thread([&, r] {
      const deferred device(seed);
      batch_norm_on_device<N, Epilogue, deferred> bn(device, {at, 0}, 8, samples[r]);
      if (r == 1) {
        for (double& x : bn.want.x) x = to_double(nearest<N>(2 * x + 3));
        bn.x = bn.activations(bn.want.x);
      }
      bn.check(mode, {two_rank_sum::sum, &seats[r], enqueue_sum});
    });
  for (auto& t : threads) t.join();
  CHECK(m.calls[0] == 6);  // three on the CPU, three on the device
  CHECK(m.calls[1] == 6);
}

}  // namespace

TEST_CASE("batch_norm on a GPU, emulated: statistics enqueued by two ranks equal the CPU's") {
  check_enqueued_statistics<float, epilogue::relu>(0, {10, 3, 5}, {2, 3}, write_mode::overwrite);
  check_enqueued_statistics<half, epilogue::relu>(1, {10, 3, 5}, {3, 1}, write_mode::add);
}

TEST_CASE(
    "batch_norm on a GPU, emulated: enqueued statistics of one value per rank, and of a rank "
    "without samples") {
  check_enqueued_statistics<float, epilogue::relu>(2, {3, 1, 1}, {1, 1}, write_mode::overwrite);
  for (const auto samples : {std::array{0, 2}, std::array{2, 0}})
    check_enqueued_statistics<float, epilogue::relu>(3, {3, 2, 2}, samples, write_mode::overwrite);
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
  CHECK(calls == 3);
  CHECK_FALSE(shared.blocks_host());
}
