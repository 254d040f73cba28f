// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where there is no GPU these say so and pass; scripts/gpu-check runs them where there is one.
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>

#include "tests/support/has_gpu.cuh"

using namespace cordee;
using support::has_gpu;

namespace {

struct twice {
  static constexpr int threads = 128;
  std::size_t n;
  float* x;
  float* sums;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(threads);
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    const float value = i < n ? 2 * x[i] : 0.0f;
    if (i < n) x[i] = value;
    part[threads - 1 - b.thread()] = value;
    b.sync();
    const float total = b.sum(part[b.thread()]);
    if (b.thread() == 0) sums[b.index()] = total;
  }
};

}  // namespace

TEST_CASE("cuda: without a GPU the device is an error that says what is missing") {
  if (has_gpu()) return;
  std::string said;
  try {
    (void)gpu{};
  } catch (const error& e) {
    said = e.what();
  }
  CAPTURE(said);
  CHECK(said.find("cudaGetDeviceCount") != std::string::npos);
  CHECK(said.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE("cuda: a body runs, streams keep order, events hold them, memory is lent and cleared") {
  if (!has_gpu()) return;
  const gpu device;
  const auto s = device.open(), other = device.open();
  constexpr std::size_t n = 1000;
  buffer<float, gpu> x(device, n), sums(device, 8);
  std::vector<float> host(n), back(n), totals(8);
  std::iota(host.begin(), host.end(), 0.0f);
  device.copy(x.span().data, host.data(), n * sizeof(float), s);
  s.launch(blocks_for(n, 128), twice{n, x.span().data, sums.span().data});
  device.await(other, device.record(s));
  float* const at = x.span().data;
  for_each(other, n, [=] CORDEE_HOST_DEVICE(std::size_t i) { at[i] += 1; });
  device.copy(back.data(), x.span().data, n * sizeof(float), other);
  device.copy(totals.data(), sums.span().data, 8 * sizeof(float), other);
  device.finish(other);
  for (std::size_t i = 0; i < n; ++i) CHECK(back[i] == 2 * host[i] + 1);
  CHECK(std::accumulate(totals.begin(), totals.end(), 0.0f) == float(n * (n - 1)));
  const lent<double, gpu::stream> room(s, 100);
  device.clear(room.data(), 100 * sizeof(double), s);
  device.finish(s);
}

TEST_CASE(
    "cuda: work that was recorded runs whenever it is replayed, with memory that it is lent") {
  if (!has_gpu()) return;
  const gpu device;
  const auto s = device.open();
  constexpr std::size_t n = 1000;
  buffer<float, gpu> x(device, n);
  float* const at = x.span().data;
  const auto work = device.record_work(s, [&] {
    const lent<float, gpu::stream> room(s, n);
    float* const there = room.data();
    for_each(s, n, [=] CORDEE_HOST_DEVICE(std::size_t i) { there[i] = at[i] + 1; });
    device.copy(at, there, n * sizeof(float), s);
  });
  CHECK(on_host(device, span_on<const float, gpu>(x.span()), s) == std::vector<float>(n, 0));
  device.replay(work, s);
  device.replay(work, s);
  CHECK(on_host(device, span_on<const float, gpu>(x.span()), s) == std::vector<float>(n, 2));
  CHECK_THROWS_AS((void)device.record_work(s, [&] { device.finish(s); }), error);
  for_each(s, n, [=] CORDEE_HOST_DEVICE(std::size_t i) { at[i] = 7; });  // is not blamed for it
  CHECK(on_host(device, span_on<const float, gpu>(x.span()), s) == std::vector<float>(n, 7));
}
