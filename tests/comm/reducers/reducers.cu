// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every reducer over threads that share one GPU: the mean of integers is exact, over a compressed
// wire exact up to its rounding.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/cordee.cuh>
#include <cordee/device/buffer.hpp>

using namespace cordee;

namespace {

constexpr std::size_t n = 10'007;
constexpr int ranks = 3;

// Whether x_i = 3 rank + i becomes its mean 3 + i, up to `rounding` times the largest.
template <class Reducer>
bool has_mean(const Reducer& reducer, double rounding) {
  const gpu device;
  const auto s = device.make_stream();
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(ranks * reducer.comm.rank() + i);
  buffer<float, gpu> values(device, n);
  buffer<std::byte, gpu> scratch(device, reducer.template scratch<float>(n));
  device.copy(values.span().data, x.data(), n * sizeof(float), s);
  buffer<float, gpu> memory(device, n);
  bucket_view<float, gpu, Reducer::slots> m{nullptr, values.span(), {}, scratch.span()};
  for (auto& slot : m.slots) slot = memory.span();
  reducer.mix(m, step_info{}, s);
  device.copy(x.data(), values.span().data, n * sizeof(float), s);
  device.finish(s);
  for (std::size_t i = 0; i < n; ++i)
    if (std::abs(x[i] - static_cast<float>(3 + i)) > rounding * n) return false;
  return true;
}

template <class Make>
void check_mean(const Make& make, double rounding = 0) {
  int right[ranks] = {};
  threads::launch(
      ranks, [&](threads comm) { right[comm.rank()] = has_mean(make(comm), rounding) ? 1 : 0; },
      {.share_gpus = true});
  for (const int each : right) CHECK(each == 1);
}

}  // namespace

TEST_CASE("reducers over threads on one GPU are exact means") {
  check_mean([](threads comm) { return ring<threads>{comm}; });
  check_mean([](threads comm) { return tree<threads>{comm}; });
  check_mean([](threads comm) { return one_shot<threads>{comm}; });
  check_mean([](threads comm) { return two_shot<threads>{comm}; });
  check_mean([](threads comm) { return butterfly<threads>{comm}; });
  check_mean([](threads comm) { return halving_doubling<threads>{comm}; });
  check_mean([](threads comm) { return native<threads>{comm}; });
  check_mean([](threads comm) { return hierarchical{comm, nodes{2}}; });
  check_mean([](threads comm) { return torus_ring{comm}; });
  check_mean([](threads comm) { return double_tree{comm, 1000}; });
  check_mean([](threads comm) { return hybrid{butterfly{comm}, ring{comm}}; });
}

TEST_CASE(
    "compressed reducers over threads on one GPU are means up to the rounding of their wire") {
  check_mean([](threads comm) { return compressed{ring<threads>{comm}, fp16{}}; }, 1.0 / 500);
  check_mean([](threads comm) { return compressed{ring<threads>{comm}, bf16{}}; }, 1.0 / 120);
  check_mean([](threads comm) { return compressed{ring<threads>{comm}, int8{}}; }, 1.0 / 120);
}

TEST_CASE("an asynchronous server of ranks that share one GPU") {
  threads::launch(
      ranks,
      [](threads comm) {
        const gpu device;
        const auto s = device.make_stream();
        const server reducer{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
        std::vector<float> x(5, static_cast<float>(7 * comm.rank() + 1));
        buffer<float, gpu> weights(device, 5), received(device, 5);
        const bucket_view<float, gpu, 1> m{nullptr, weights.span(), {received.span()}, {}};
        device.copy(weights.span().data, x.data(), 5 * sizeof(float), s);
        reducer.initialize(m, s);
        for (int k = 0; k < 4; ++k) {
          scale(5, 2.0f, weights.span().data, s);  // each rank moves by its weights
          reducer.mix(m, step_info{}, s);
        }
        device.copy(x.data(), weights.span().data, 5 * sizeof(float), s);
        device.finish(s);
        CHECK(x == std::vector<float>(5, 16));
      },
      {.share_gpus = true});
}
