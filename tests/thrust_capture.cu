// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What Thrust asks of the CUDA runtime under thrust_policy, counted by its double: kernels do not
// run. A capture forbids waits and cudaMalloc.
#include <cstdint>
#include <iterator>
#include <ranges>
#include <type_traits>

#include <doctest/doctest.h>
#include <thrust/for_each.h>
#include <thrust/scan.h>
#include <thrust/transform.h>

#include <cordee/thrust.cuh>

#include "tests/support/cuda_on_host.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr std::size_t size = 100'000;

// A GPU's span is a range of Thrust's, and none of the host's.
template <class S>
concept HostIterable = requires(S s) { std::begin(s); } || std::ranges::range<S>;
static_assert(
    std::is_same_v<decltype(thrust_begin(span_on<float, gpu>{})), thrust::device_ptr<float>>);
static_assert(std::is_same_v<decltype(thrust_end(span_on<const float, gpu>{})),
                             thrust::device_ptr<const float>>);
static_assert(std::is_same_v<decltype(thrust_begin(span_on<float, cpu>{})), float*>);
static_assert(!HostIterable<span_on<float, gpu>> && HostIterable<span_on<float, cpu>>);

struct twice {
  CORDEE_HOST_DEVICE float operator()(float x) const { return 2 * x; }
};

/// Calls of the CUDA runtime during f().
template <class F>
host_cuda_state calls_of(const F& f) {
  const host_cuda_state before = host_cuda_counts();
  f();
  host_cuda_state now = host_cuda_counts();
  now.launches -= before.launches;
  now.captured -= before.captured;
  now.waits -= before.waits;
  now.device_waits -= before.device_waits;
  now.pool_calls -= before.pool_calls;
  now.allocations -= before.allocations;
  return now;
}

/// One algorithm on a stream:
/// twice eager, of which the first sizes the stream's stack, then captured.
template <class F>
void check_launches_only(const F& algorithm) {
  const gpu device;
  const auto s = device.make_stream();
  auto* const x = static_cast<float*>(device.allocate(size * sizeof(float)));
  const auto run = [&] { algorithm(s, x); };
  run();
  const host_cuda_state eager = calls_of(run);
  CHECK(eager.launches > 0);
  CHECK(eager.waits == 0);
  CHECK(eager.device_waits == 0);
  CHECK(eager.allocations == 0);
  CHECK(eager.pool_calls == 0);
  const host_cuda_state captured = calls_of([&] { (void)device.capture(s, run); });
  CHECK(captured.captured == eager.launches);
  CHECK(captured.launches == 0);
  CHECK(captured.waits == 0);
  CHECK(captured.device_waits == 0);
  CHECK(captured.allocations == 0);
  CHECK(captured.pool_calls == 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  device.release(x);
  device.close_stream(s);
}

}  // namespace

TEST_CASE("thrust: a transform is launches alone, eager and captured") {
  check_launches_only([](auto s, float* p) {
    const span_on<float, gpu> x{p, size};
    CHECK(thrust_end(x) - thrust_begin(x) == size);
    thrust::transform(thrust_policy(s), thrust_begin(x), thrust_end(x), thrust_begin(x), twice{});
  });
}
TEST_CASE("thrust: a scan takes its scratch from the stream's stack, eager and captured") {
  check_launches_only([](auto s, float* x) {
    thrust::inclusive_scan(thrust_policy(s), x, x + size, x);
    CHECK(s.temporary_bytes() > 0);
  });
}
