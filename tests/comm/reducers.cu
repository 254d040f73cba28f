// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every exact reducer over ranks as threads that share one GPU: all leave with the exact mean of
// whole numbers. Where there is no GPU nothing is run.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/cuda.cuh>
#include <cordee/device/buffer.hpp>

#include "tests/support/has_gpu.cuh"

using namespace cordee;

namespace {

constexpr std::size_t n = 10'007;
constexpr int ranks = 3;

// x_i = 3 rank + i on each rank; whether its mean, 3 + i, is what it leaves with.
template <class Reducer>
bool leaves_with_the_mean(const Reducer& reducer) {
  const gpu device;
  const auto s = device.open();
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(ranks * reducer.link.rank() + i);
  buffer<float, gpu> there(device, n);
  buffer<std::byte, gpu> scratch(device, reducer.template scratch<float>(n));
  device.copy(there.span().data, x.data(), n * sizeof(float), s);
  reducer.mix(message<float, gpu, 0>{nullptr, there.span(), {}, scratch.span()}, moment{}, s);
  device.copy(x.data(), there.span().data, n * sizeof(float), s);
  device.finish(s);
  for (std::size_t i = 0; i < n; ++i)
    if (x[i] != static_cast<float>(3 + i)) return false;
  return true;
}

template <class Make>
void is_a_mean(const Make& make) {
  if (!support::has_gpu()) return;
  int right[ranks] = {};
  threads::launch(
      ranks, [&](threads link) { right[link.rank()] = leaves_with_the_mean(make(link)) ? 1 : 0; });
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
}
