// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/solo.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

TEST_CASE("allreduce_host adds in the order of ranks: the same bits on every rank") {
  for (const int ranks : rank_counts) {
    double expected = 0.1;  // then thirds, whose sum depends on the order
    for (int r = 1; r < ranks; ++r) expected += 0.1 + r / 3.0 * 1e10;
    for (const double x : on_ranks(ranks, [&](threads comm) {
           std::array v{0.1 + comm.rank() / 3.0 * 1e10};
           allreduce_host(comm, v, reduce_op::sum);
           return v[0];
         }))
      CHECK(x == expected);
  }
}

TEST_CASE("allreduce_host: minimum and maximum; a NaN on one rank is the result of all three") {
  for (const int ranks : rank_counts)
    on_ranks(ranks, [&](threads comm) {
      std::array low{1.0 * comm.rank(), -1.0 * comm.rank()}, high = low;
      allreduce_host(comm, low, reduce_op::min);
      allreduce_host(comm, high, reduce_op::max);
      CHECK(low == std::array{0.0, -1.0 * (ranks - 1)});
      CHECK(high == std::array{1.0 * (ranks - 1), 0.0});
      CHECK(max_over_ranks(comm, -1.0 - comm.rank()) == -1);
      for (const int bad : {0, ranks - 1}) {
        std::array x{comm.rank() == bad ? std::nan("") : 1.0}, y = x, z = x;
        allreduce_host(comm, x, reduce_op::sum);
        allreduce_host(comm, y, reduce_op::min);
        allreduce_host(comm, z, reduce_op::max);
        CHECK((std::isnan(x[0]) && std::isnan(y[0]) && std::isnan(z[0])));
      }
      return 0;
    });
}

TEST_CASE("allreduce_host does not disturb a reducer in its context") {
  on_ranks(3, [](threads comm) {
    std::vector<float> x(999, static_cast<float>(comm.rank()));
    std::vector<std::byte> scratch(ring{comm}.scratch<float>(x.size()));
    std::thread courier([&] {
      for (int k = 0; k < 50; ++k)
        ring{comm}.mix(
            bucket_view<float, cpu, 0>{
                nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
            step_info{}, cpu::stream{});
    });
    for (int k = 0; k < 50; ++k) {
      std::array v{1.0 * k};
      allreduce_host(comm, v, reduce_op::sum);
      CHECK(v[0] == 3.0 * k);
    }
    courier.join();
    CHECK(x[500] == 1);
    return 0;
  });
}

TEST_CASE_TEMPLATE("allreduce_mean and broadcast leave the same bits on every rank", Real, float,
                   double) {
  for (const int ranks : rank_counts) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      std::vector<Real> x(101, static_cast<Real>(ranks * comm.rank())),
          y(7, static_cast<Real>(3 + comm.rank()));
      allreduce_mean(comm, cpu{1}, span_on<Real, cpu>{x.data(), x.size()}, cpu::stream{});
      broadcast(comm, span_on<Real, cpu>{y.data(), y.size()}, cpu::stream{});
      CHECK(y == std::vector<Real>(7, Real{3}));
      return x;
    });
    for (const auto& x : by_rank)
      CHECK(x == std::vector<Real>(101, static_cast<Real>(ranks * (ranks - 1) / 2)));
  }
}

TEST_CASE("collectives over one rank change nothing") {
  std::array v{5.0};
  allreduce_host(self_comm{}, v, reduce_op::sum);
  CHECK(v[0] == 5);
  std::array<float, 3> x{1, 2, 3}, y{};
  allreduce_mean(self_comm{}, cpu{1}, span_on<float, cpu>{x.data(), 3}, cpu::stream{});
  broadcast(self_comm{}, span_on<float, cpu>{x.data(), 3}, cpu::stream{});
  CHECK(x == std::array<float, 3>{1, 2, 3});
  const std::array out{send_op<cpu>{0, bytes(span_on<float, cpu>{x.data(), 3})}};
  const std::array in{recv_op<cpu>{0, bytes(span_on<float, cpu>{y.data(), 3})}};
  self_comm{}.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                       cpu::stream{});
  CHECK(y == x);
  CHECK_THROWS_AS(self_comm{}.exchange(std::span<const send_op<cpu>>(out),
                                       std::span<const recv_op<cpu>>(), cpu::stream{}),
                  usage_error);
}
