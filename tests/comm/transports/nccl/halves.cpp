// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The halves of NCCL's mean, in GPU memory, over the test double of NCCL.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/transports/nccl.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/testing/shard_laws.hpp>

#include "tests/support/nccl_double_gpu.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(NativeHalvesOn<nccl, float, cpu> && NativeHalvesOn<nccl, double, nccl_double_gpu>);

namespace {

template <class Real>
span_on<Real, nccl_double_gpu> on_gpu(std::vector<Real>& x) {
  return {x.data(), x.size()};
}

/// x_i = p rank + i, whose mean is p (p - 1) / 2 + i, exact in any order.
template <class Real>
int wrong_numbers(const nccl& comm, std::size_t n) {
  const int p = comm.size();
  const auto s = nccl_double_gpu::make_stream();
  std::vector<Real> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<Real>(p * comm.rank() + static_cast<int>(i));
  const auto expected = [&](std::size_t i) {
    return static_cast<Real>(p * (p - 1) / 2 + static_cast<int>(i));
  };
  const auto own = comm.own_range(n);
  int wrong = 0;
  comm.reduce_scatter_mean(on_gpu(x), s);
  for (std::size_t i = 0; i < n; ++i)
    if (i >= own.begin && i < own.end)
      wrong += x[i] != expected(i);
    else
      x[i] = -1;
  comm.all_gather(on_gpu(x), s);
  for (std::size_t i = 0; i < n; ++i) wrong += x[i] != expected(i);
  nccl_double_gpu::close(s);
  return wrong;
}

}  // namespace

TEST_CASE("nccl: the halves of a mean in GPU memory, of any length") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    std::atomic<int> wrong{0};
    CHECK(launch_error(ranks, [&](nccl comm) {
            for (const std::size_t n : {0u, 1u, 7u, 63u, 64u, 65u, 320u, 512u, 513u, 1003u}) {
              wrong += wrong_numbers<float>(comm, n);
              wrong += wrong_numbers<double>(comm, n);
            }
          }) == "");
    CHECK(wrong == 0);
  }
}

TEST_CASE("nccl: sharded over native keeps the laws") {
  const shard_law_options options{.ranks = {1, 2, 3, 5, 8}};
  CHECK(shard_laws<nccl>([](nccl comm) { return native{comm}; }, options, launch_nccl) == "");
}

TEST_CASE("nccl: a half's mean is divided once, although NCCL's average multiplies by 1/p") {
  CHECK(launch_error(3, [](nccl comm) {
          std::vector<float> x(192,
                               std::array{1.0f, 2.0f, 4.0f}[static_cast<std::size_t>(comm.rank())]);
          comm.reduce_scatter_mean(span_on<float, cpu>{x.data(), x.size()}, cpu::stream{});
          CHECK(x[comm.own_range(192).begin] == 7.0f / 3);
        }) == "");
}

TEST_CASE("nccl: a half that another rank does not make is an error, and names the bucket") {
  const std::string message = launch_error(
      2,
      [](nccl comm) {
        const auto describe = [] { return std::string("step 12, bucket 3"); };
        const error_context scope(describe);
        const auto s = nccl_double_gpu::make_stream();
        std::vector<float> x(128);
        if (comm.rank() == 0) comm.reduce_scatter_mean(on_gpu(x), s);
        if (comm.rank() == 1) comm.all_gather(on_gpu(x), s);  // in another order
        nccl_double_gpu::close(s);
      },
      1s);
  CHECK(contains(message, " waited 1000 ms for every rank to contribute 128 elements to a"));
  CHECK(contains(message, "to contribute 128 elements to a reduce-scatter on context 0"));
  CHECK(contains(message, "to contribute 128 elements to an all-gather on context 0"));
  CHECK(contains(message, "step 12, bucket 3"));
}

TEST_CASE("nccl: an asynchronous error in a half is thrown with the call and the context") {
  const std::string message = launch_error(2, [](nccl comm) {
    std::vector<float> x(128);
    const auto s = nccl_double_gpu::make_stream();
    if (comm.rank() == 0) nccl_double::failing_with = ncclRemoteError;
    if (comm.rank() == 0) nccl_double::failing_rank = 0;
    comm.all_gather(on_gpu(x), s);
    nccl_double_gpu::close(s);
  });
  nccl_double::failing_rank = -1;
  CHECK(contains(message, "rank 0: nccl: ncclAllGather on context 0: remote process exited"));
}
