// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Run where there is a GPU (tests/support/gpu_main.cu); scripts/gpu-check runs them.
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>

using namespace cordee;
using namespace cordee::detail::device;

namespace {

struct double_kernel {
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

/// Declares shared memory of its own, by `sum` and `is_last`.
struct base_kernel {
  static constexpr int threads = 32;
  unsigned* counter;
  std::size_t* base;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 16; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(16);
    (void)b.sum(1.0f);
    if (b.is_last(counter, 1) && b.thread() == 0) *base = __cvta_generic_to_shared(memory);
  }
};

}  // namespace

TEST_CASE("cuda: without a GPU the device is an error that says what is missing") {
  std::string message;
  try {
    (void)gpu{};
  } catch (const error& e) {
    message = e.what();
  }
  CAPTURE(message);
  CHECK(message.find("cudaGetDeviceCount") != std::string::npos);
  CHECK(message.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE("cuda: kernels run in stream order, events order streams, temporary memory is cleared") {
  const gpu device;
  const auto s = device.make_stream(), other = device.make_stream();
  constexpr std::size_t n = 1000;
  buffer<float, gpu> x(device, n), sums(device, 8);
  std::vector<float> host(n), back(n), totals(8);
  std::iota(host.begin(), host.end(), 0.0f);
  device.copy(x.span().data, host.data(), n * sizeof(float), s);
  s.launch_kernel(blocks_for(n, 128), double_kernel{n, x.span().data, sums.span().data});
  device.await(other, device.record(s));
  float* const at = x.span().data;
  for_each(other, n, [=] CORDEE_HOST_DEVICE(std::size_t i) { at[i] += 1; });
  device.copy(back.data(), x.span().data, n * sizeof(float), other);
  device.copy(totals.data(), sums.span().data, 8 * sizeof(float), other);
  device.finish(other);
  for (std::size_t i = 0; i < n; ++i) CHECK(back[i] == 2 * host[i] + 1);
  CHECK(std::accumulate(totals.begin(), totals.end(), 0.0f) == float(n * (n - 1)));
  const stream_buffer<double, gpu::stream> buffer_of_stream(s, 100);
  device.clear(buffer_of_stream.data(), 100 * sizeof(double), s);
  device.finish(s);
}

TEST_CASE("cuda: shared memory begins at a line of all banks") {
  const gpu device;
  const auto s = device.make_stream();
  buffer<std::size_t, gpu> base(device, 1);
  s.launch_kernel(1, base_kernel{s.counters(1), base.span().data});
  const auto found = copy_to_host(device, span_on<const std::size_t, gpu>(base.span()), s);
  REQUIRE(found[0] != 0);
  CHECK(found[0] % 128 == 0);
}

TEST_CASE(
    "cuda: captured work runs at every replay, with the memory allocated during the capture") {
  const gpu device;
  const auto s = device.make_stream();
  constexpr std::size_t n = 1000;
  buffer<float, gpu> x(device, n);
  float* const at = x.span().data;
  const auto graph = device.capture(s, [&] {
    const stream_buffer<float, gpu::stream> buffer_of_stream(s, n);
    float* const temporary = buffer_of_stream.data();
    for_each(s, n, [=] CORDEE_HOST_DEVICE(std::size_t i) { temporary[i] = at[i] + 1; });
    device.copy(at, temporary, n * sizeof(float), s);
  });
  CHECK(copy_to_host(device, span_on<const float, gpu>(x.span()), s) == std::vector<float>(n, 0));
  device.replay(graph, s);
  device.replay(graph, s);
  CHECK(copy_to_host(device, span_on<const float, gpu>(x.span()), s) == std::vector<float>(n, 2));
  CHECK_THROWS_AS((void)device.capture(s, [&] { device.finish(s); }), error);
  for_each(s, n, [=] CORDEE_HOST_DEVICE(std::size_t i) {
    at[i] = 7;
  });  // does not report the capture's error
  CHECK(copy_to_host(device, span_on<const float, gpu>(x.span()), s) == std::vector<float>(n, 7));
}
