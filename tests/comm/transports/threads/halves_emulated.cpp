// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The halves of a mean between threads whose memory is on an emulated GPU with late streams.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(detail::comm::NativeHalvesOn<threads, float, support::deferred>);

namespace {

/// x_i = p rank + i, whose mean is p (p - 1) / 2 + i, exact in any order.
int wrong_after_halves(const threads& comm, std::size_t n, const support::deferred& device) {
  const auto s = device.make_stream();
  const int p = comm.size();
  std::vector<float> host(n);
  for (std::size_t i = 0; i < n; ++i)
    host[i] = static_cast<float>(p * comm.rank() + static_cast<int>(i));
  buffer<float, support::deferred> x(device, n);
  const auto copy = [&](void* to, const void* from) {
    if (n > 0) device.copy(to, from, n * sizeof(float), s);
    device.finish(s);
  };
  const auto wrong = [&](std::size_t begin, std::size_t end) {
    int count = 0;
    for (std::size_t i = begin; i < end; ++i)
      count += host[i] != static_cast<float>(p * (p - 1) / 2 + static_cast<int>(i));
    return count;
  };
  if (n > 0) device.copy(x.span().data, host.data(), n * sizeof(float), s);
  comm.reduce_scatter_mean(x.span(), s);
  const auto own = comm.own_range(n);
  copy(host.data(), x.span().data);
  int count = wrong(own.begin, own.end);
  for (std::size_t i = 0; i < n; ++i)
    if (i < own.begin || i >= own.end) host[i] = -1;
  copy(x.span().data, host.data());
  comm.all_gather(x.span(), s);
  // A rank may overwrite its memory as soon as the call returns.
  const std::vector<float> overwritten(own.size(), -2);
  const auto other = device.make_stream();
  if (own.size() > 0)
    device.copy(x.span().data + own.begin, overwritten.data(), own.size() * sizeof(float), other);
  device.finish(other);
  float all_have = 0;
  comm.mean(span_on<float, cpu>{&all_have, 1}, cpu::stream{});
  copy(host.data(), x.span().data);
  return count + wrong(0, own.begin) + wrong(own.end, n);
}

}  // namespace

TEST_CASE("threads: the halves of a mean in GPU memory, of any length") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::uint64_t seed : {0u, 1u, 2u}) {
      CAPTURE(ranks);
      const support::deferred device(seed);  // of all ranks
      std::atomic<int> wrong{0};
      support::on_ranks(ranks, [&](threads comm) {
        for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 513u, 1003u})
          wrong += wrong_after_halves(comm, n, device);
        return 0;
      });
      CHECK(wrong == 0);
    }
}
