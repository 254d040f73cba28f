// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL itself, on a GPU: one rank, two ranks on one GPU, which is an error, and, where there are
// several GPUs, a ring, NCCL's mean and its halves. Skipped without a GPU; scripts/gpu-check runs
// it.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/transports/nccl.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/cordee.cuh>
#include <cordee/device/buffer.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

static_assert(TransportOn<nccl, gpu> && TransportOn<nccl, cpu> && Abortable<nccl>);
static_assert(FusedAddOn<nccl, float, gpu> && NativeMeanOn<nccl, float, gpu>);
static_assert(NativeHalvesOn<nccl, float, gpu>);
static_assert(ReducerOn<ring<nccl>, float, gpu> && ReducerOn<native<nccl>, float, gpu>);

namespace {

template <class F>
std::string error_message(const F& f) {
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

// f(comm) on so many ranks of this process; the message of the error, if any.
template <class F>
std::string launch_error(int ranks, const F& f) {
  return error_message([&] {
    threads::launch(ranks, [&](threads host_comm) {
      nccl::launch(f, rendezvous_comm<threads>{host_comm}, {.deadline = std::chrono::seconds(60)});
    });
  });
}

// The reducer's mean of 0, 1, ..., p-1; -1 if its elements differ.
template <class Reducer>
float mean_of_ranks(const Reducer& reducer) {
  const gpu device;
  const auto s = device.make_stream();
  constexpr std::size_t n = 9'984;  // 156 units of 64
  std::vector<float> x(n, static_cast<float>(reducer.comm.rank()));
  buffer<float, gpu> values(device, n);
  buffer<std::byte, gpu> scratch(device, reducer.template scratch<float>(n));
  device.copy(values.span().data, x.data(), n * sizeof(float), s);
  reducer.mix(bucket_view<float, gpu, 0>{nullptr, values.span(), {}, scratch.span()}, step_info{},
              s);
  if constexpr (ShardsUpdate<Reducer>) reducer.template gather<float, gpu>(values.span(), s);
  device.copy(x.data(), values.span().data, n * sizeof(float), s);
  device.finish(s);
  return x.front() == x.back() ? x.front() : -1;
}

}  // namespace

TEST_CASE("nccl: without a GPU a launch is an error that names what is missing") {
  const std::string message = error_message([] { nccl::launch([](nccl) {}); });
  CAPTURE(message);
  CHECK(message.find("cudaGetDeviceCount") != std::string::npos);
  CHECK(message.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE("nccl: a run of one rank sends to itself, GPU and host memory") {
  CHECK(
      launch_error(1, [](nccl comm) {
        const gpu device;
        CHECK(mean_of_ranks(ring{comm}) == 0);
        const std::vector<float> sent(1000, 3);
        std::vector<float> received(1000);
        const std::array out{send_op<cpu>{0, bytes(span_on<const float, cpu>{sent.data(), 1000})}};
        const std::array in{recv_op<cpu>{0, bytes(span_on<float, cpu>{received.data(), 1000})}};
        comm.duplicate(1).exchange(std::span<const send_op<cpu>>(out),
                                   std::span<const recv_op<cpu>>(in), cpu::stream{});
        CHECK(received == sent);
      }) == "");
}

TEST_CASE("nccl: two ranks on one GPU are an error that names them, and the next launch succeeds") {
  const std::string message = error_message([] {
    threads::launch(2, [](threads host_comm) {
      nccl::launch([](nccl) {}, rendezvous_comm<threads>{host_comm},
                   {.deadline = std::chrono::seconds(60), .device = 0});
    });
  });
  CAPTURE(message);
  CHECK(message.find("ranks 0 and 1 have the same GPU") != std::string::npos);
  CHECK(launch_error(1, [](nccl) {}) == "");
}

TEST_CASE("nccl: over several GPUs a ring and NCCL compute the same mean") {
  const int ranks = gpus();
  if (ranks < 2) {
    MESSAGE("skipped: over several GPUs: this machine has ", ranks);
    return;
  }
  CHECK(launch_error(ranks, [ranks](nccl comm) {
          CHECK(mean_of_ranks(ring{comm}) == static_cast<float>(ranks - 1) / 2);
          CHECK(mean_of_ranks(native{comm}) == static_cast<float>(ranks - 1) / 2);
          CHECK(mean_of_ranks(sharded{native{comm}}) == static_cast<float>(ranks - 1) / 2);
        }) == "");
}
