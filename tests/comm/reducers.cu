// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every reducer over ranks as threads that share one GPU: all leave with the exact mean of whole
// numbers, over a narrow wire with one that is as near as its numbers are. Where there is no GPU
// nothing is run.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/hierarchical.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/comm/torus_ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/cuda.cuh>
#include <cordee/device/buffer.hpp>

#include "tests/support/has_gpu.cuh"

using namespace cordee;

namespace {

constexpr std::size_t n = 10'007;
constexpr int ranks = 3;

// x_i = 3 rank + i on each rank; whether its mean, 3 + i, is what it leaves with, but for a share
// of the largest.
template <class Reducer>
bool leaves_with_the_mean(const Reducer& reducer, double rounding) {
  const gpu device;
  const auto s = device.open();
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(ranks * reducer.link.rank() + i);
  buffer<float, gpu> there(device, n);
  buffer<std::byte, gpu> scratch(device, reducer.template scratch<float>(n));
  device.copy(there.span().data, x.data(), n * sizeof(float), s);
  buffer<float, gpu> memory(device, n);
  message<float, gpu, Reducer::slots> m{nullptr, there.span(), {}, scratch.span()};
  for (auto& slot : m.memory) slot = memory.span();
  reducer.mix(m, moment{}, s);
  device.copy(x.data(), there.span().data, n * sizeof(float), s);
  device.finish(s);
  for (std::size_t i = 0; i < n; ++i)
    if (std::abs(x[i] - static_cast<float>(3 + i)) > rounding * n) return false;
  return true;
}

template <class Make>
void is_a_mean(const Make& make, double rounding = 0) {
  if (!support::has_gpu()) return;
  int right[ranks] = {};
  threads::launch(ranks, [&](threads link) {
    right[link.rank()] = leaves_with_the_mean(make(link), rounding) ? 1 : 0;
  });
  for (const int each : right) CHECK(each == 1);
}

}  // namespace

TEST_CASE("reducers over threads on one GPU are exact means") {
  is_a_mean([](threads link) { return ring<threads>{link}; });
  is_a_mean([](threads link) { return tree<threads>{link}; });
  is_a_mean([](threads link) { return all_to_all<threads>{link}; });
  is_a_mean([](threads link) { return butterfly<threads>{link}; });
  is_a_mean([](threads link) { return halving<threads>{link}; });
  is_a_mean([](threads link) { return native<threads>{link}; });
  is_a_mean([](threads link) { return hierarchical{link, nodes{2}}; });
  is_a_mean([](threads link) { return torus_ring{link}; });
  is_a_mean([](threads link) { return double_tree{link, 1000}; });
  is_a_mean([](threads link) { return hybrid{butterfly{link}, ring{link}}; });
}

TEST_CASE("narrow reducers over threads on one GPU are means but for the rounding of their wire") {
  is_a_mean([](threads link) { return narrow{ring<threads>{link}, fp16{}}; }, 1.0 / 500);
  is_a_mean([](threads link) { return narrow{ring<threads>{link}, bf16{}}; }, 1.0 / 120);
  is_a_mean([](threads link) { return narrow{ring<threads>{link}, int8{}}; }, 1.0 / 120);
}

TEST_CASE("an asynchronous server keeps the numbers of ranks that share one GPU") {
  if (!support::has_gpu()) return;
  threads::launch(ranks, [](threads link) {
    const gpu device;
    const auto s = device.open();
    const server at{link, asynchronous{.softsync = 1, .bound = 0}};
    std::vector<float> x(5, static_cast<float>(7 * link.rank() + 1));
    buffer<float, gpu> there(device, 5), told(device, 5);
    const message<float, gpu, 1> m{nullptr, there.span(), {told.span()}, {}};
    device.copy(there.span().data, x.data(), 5 * sizeof(float), s);
    at.begin(m, s);
    for (int k = 0; k < 4; ++k) {
      scale(5, 2.0f, there.span().data, s);  // everybody moves by what everybody has
      at.mix(m, moment{}, s);
    }
    device.copy(x.data(), there.span().data, 5 * sizeof(float), s);
    device.finish(s);
    CHECK(x == std::vector<float>(5, 16));
  });
}
