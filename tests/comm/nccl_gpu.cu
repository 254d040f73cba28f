// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL itself, on a GPU: a rank that is alone, two that are refused one GPU, and, where there are
// several, a ring and NCCL's mean. Where there is none this says so; scripts/gpu-check runs it.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/native.hpp>
#include <cordee/comm/nccl.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/cuda.cuh>
#include <cordee/device/buffer.hpp>

#include "tests/support/has_gpu.cuh"

using namespace cordee;
using support::has_gpu;

static_assert(TransportOn<nccl, gpu> && TransportOn<nccl, cpu> && Abandons<nccl>);
static_assert(AddsOn<nccl, float, gpu> && NativeMeanOn<nccl, float, gpu>);
static_assert(ReducerOn<ring<nccl>, float, gpu> && ReducerOn<native<nccl>, float, gpu>);

namespace {

template <class F>
std::string complaint(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// f(link) on so many ranks of this process.
template <class F>
std::string launched(int ranks, const F& f) {
  return complaint([&] {
    threads::launch(ranks, [&](threads between) {
      nccl::launch(f, by_link<threads>{between}, {.deadline = std::chrono::seconds(60)});
    });
  });
}

// The mean of 0, 1, ..., p-1, by whatever reducer.
template <class Reducer>
float mean_of_ranks(const Reducer& reducer) {
  const gpu device;
  const auto s = device.open();
  constexpr std::size_t n = 10'000;
  std::vector<float> x(n, static_cast<float>(reducer.link.rank()));
  buffer<float, gpu> there(device, n);
  buffer<std::byte, gpu> scratch(device, reducer.template scratch<float>(n));
  device.copy(there.span().data, x.data(), n * sizeof(float), s);
  reducer.mix(message<float, gpu, 0>{nullptr, there.span(), {}, scratch.span()}, moment{}, s);
  device.copy(x.data(), there.span().data, n * sizeof(float), s);
  device.finish(s);
  return x.front() == x.back() ? x.front() : -1;
}

}  // namespace

TEST_CASE("nccl: without a GPU a launch is an error that says what is missing") {
  if (has_gpu()) return;
  const std::string said = complaint([] { nccl::launch([](nccl) {}); });
  CAPTURE(said);
  CHECK(said.find("cudaGetDeviceCount") != std::string::npos);
  CHECK(said.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE("nccl: a rank that is alone talks to itself, from the GPU and from the host") {
  if (!has_gpu()) return;
  CHECK(launched(1, [](nccl link) {
          const gpu device;
          CHECK(mean_of_ranks(ring{link}) == 0);
          const std::vector<float> mine(1000, 3);
          std::vector<float> heard(1000);
          const std::array out{to<cpu>{0, const_bytes(span_on<const float, cpu>{mine.data(), 1000})}};
          const std::array in{from<cpu>{0, bytes(span_on<float, cpu>{heard.data(), 1000})}};
          link.lane(1).exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in),
                                cpu::stream{});
          CHECK(heard == mine);
        }) == "");
}

TEST_CASE("nccl: two ranks on one GPU are refused by name, and the next launch is well") {
  if (!has_gpu()) return;
  const std::string said = complaint([] {
    threads::launch(2, [](threads between) {
      nccl::launch([](nccl) {}, by_link<threads>{between},
                   {.deadline = std::chrono::seconds(60), .device = 0});
    });
  });
  CAPTURE(said);
  CHECK(said.find("ranks 0 and 1 have the same GPU") != std::string::npos);
  CHECK(launched(1, [](nccl) {}) == "");
}

TEST_CASE("nccl: several GPUs have the same mean, by a ring and by NCCL") {
  if (gpus() < 2) return;
  const int ranks = gpus();
  CHECK(launched(ranks, [ranks](nccl link) {
          CHECK(mean_of_ranks(ring{link}) == static_cast<float>(ranks - 1) / 2);
          CHECK(mean_of_ranks(native{link}) == static_cast<float>(ranks - 1) / 2);
        }) == "");
}
