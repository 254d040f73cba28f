// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The transport over a test double of NCCL and of CUDA's streams (tests/support/nccl_double).
#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/nccl_double_gpu.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<nccl, cpu> && TransportOn<nccl, nccl_double_gpu> && Abortable<nccl>);
static_assert(FusedAddOn<nccl, float, nccl_double_gpu> &&
              NativeMeanOn<nccl, double, nccl_double_gpu>);

namespace {

using values = std::vector<float>;

send_op<nccl_double_gpu> send(int peer, const values& x) {
  return {peer, bytes(span_on<const float, nccl_double_gpu>{x.data(), x.size()})};
}
recv_op<nccl_double_gpu> receive(int peer, values& x) {
  return {peer, bytes(span_on<float, nccl_double_gpu>{x.data(), x.size()})};
}
void exchange(const nccl& comm, std::vector<send_op<nccl_double_gpu>> out,
              std::vector<recv_op<nccl_double_gpu>> in, nccl_double_gpu::stream s) {
  comm.exchange(std::span<const send_op<nccl_double_gpu>>(out),
                std::span<const recv_op<nccl_double_gpu>>(in), s);
}

}  // namespace

TEST_CASE("nccl: it keeps the laws of transports") {
  CHECK(transport_laws(launch_nccl, {.ranks = {1, 2, 3, 4}, .patience = 30s, .impatience = 1s}) ==
        "");
}

TEST_CASE("nccl: GPU memory is sent, added and averaged in the order of its stream") {
  for (const int ranks : {2, 3}) {
    const std::string message = launch_error(ranks, [](nccl comm) {
      const int p = comm.size(), next = (comm.rank() + 1) % p, before = (comm.rank() + p - 1) % p;
      const auto s = nccl_double_gpu{}.make_stream();
      values own(50'000, static_cast<float>(comm.rank())), received(50'000), sum(50'000, 1);
      exchange(comm, {send(next, own)}, {receive(before, received)}, s);
      CHECK(received == values(50'000, static_cast<float>(before)));
      const std::array out{send(next, own)};
      const std::array in{receive(before, sum)};
      comm.exchange_add<float>(std::span<const send_op<nccl_double_gpu>>(out),
                               std::span<const recv_op<nccl_double_gpu>>(in), s);
      CHECK(sum == values(50'000, static_cast<float>(before + 1)));
      comm.mean(span_on<float, nccl_double_gpu>{own.data(), own.size()}, s);
      CHECK(own == values(50'000, static_cast<float>(p - 1) / 2));
      nccl_double_gpu::close(s);
    });
    CHECK(message == "");
  }
}

TEST_CASE(
    "nccl: a message of another size is an error with both ranks, both sizes and the context") {
  for (const std::size_t sent : {12u, 20u, 0u, 400'000u}) {
    CAPTURE(sent);
    const std::string message = launch_error(2, [&](nccl comm) {
      values own(sent / 4), received(4);
      const auto s = nccl_double_gpu{}.make_stream();
      if (comm.rank() == 0) exchange(comm.duplicate(2), {send(1, own)}, {}, s);
      if (comm.rank() == 1) exchange(comm.duplicate(2), {}, {receive(0, received)}, s);
    });
    CHECK(contains(
        message,
        concat("rank 1 expects 16 bytes from rank 0 on context 2, which sends ", sent).c_str()));
  }
}

TEST_CASE("nccl: a mean is divided once, although NCCL's average multiplies each summand by 1/p") {
  CHECK(launch_error(3, [](nccl comm) {
          float x = std::array{1.0f, 2.0f, 4.0f}[static_cast<std::size_t>(comm.rank())];
          comm.mean(span_on<float, cpu>{&x, 1}, cpu::stream{});
          CHECK(x == 7.0f / 3);
        }) == "");
}

TEST_CASE("nccl: the error of a stall has a line with the wait of every rank") {
  support::stuck_rank stuck;
  const std::string message = launch_error(
      3,
      [&](nccl comm) {
        values x(2);
        const auto describe = [&] { return concat("bucket ", comm.rank()); };
        const detail::comm::error_context context(describe);
        if (comm.rank() == 2) stuck.block();
        const auto s = nccl_double_gpu{}.make_stream();
        stuck.run_peer([&] { exchange(comm, {}, {receive(comm.rank() == 0 ? 2 : 0, x)}, s); });
      },
      2s);
  CHECK(contains(message, "waited 2000 ms for rank "));
  CHECK(contains(message, "for rank 2 to send 8 bytes on context 0"));
  for (const char* bucket : {"(bucket 0)", "(bucket 1)"}) CHECK(contains(message, bucket));
}

TEST_CASE("nccl: the suspected rank is the end of the chain of waits") {
  support::stuck_rank stuck;
  const std::string message = launch_error(
      3,
      [&](nccl comm) {
        values x(2);
        if (comm.rank() == 2) return stuck.block();
        if (comm.rank() == 1) std::this_thread::sleep_for(500ms);
        const auto s = nccl_double_gpu{}.make_stream();
        stuck.run_peer([&] { exchange(comm, {}, {receive(comm.rank() + 1, x)}, s); });
      },
      3s);
  CHECK(contains(message, "waited 3000 ms for rank "));
  CHECK(contains(message, "\n  suspected: rank 2 (reported no wait)"));
}

TEST_CASE("nccl: an asynchronous error of NCCL is thrown with the call, the context and its text") {
  const std::string message = launch_error(2, [](nccl comm) {
    values x(2);
    const auto s = nccl_double_gpu{}.make_stream();
    if (comm.rank() == 0) nccl_double::failing_with = ncclRemoteError;
    if (comm.rank() == 0) nccl_double::failing_rank = 0;
    exchange(comm, {}, {receive(1 - comm.rank(), x)}, s);
  });
  nccl_double::failing_rank = -1;
  CHECK(contains(message, "rank 0: nccl: "));
  CHECK(contains(message, "on context 0: remote process exited or there was a network error"));
  CHECK(contains(message, "the double's last error"));
}

TEST_CASE("nccl: the GPU is that of the local rank, or that of the options") {
  std::atomic<int> wrong{0};
  CHECK(launch_error(3, [&](nccl comm) {
          int device = -1;
          cudaGetDevice(&device);
          wrong += device == comm.rank() ? 0 : 1;
        }) == "");
  CHECK(wrong == 0);
  threads::launch(
      2,
      [&](threads host_comm) {
        nccl::launch(
            [&](nccl comm) {
              int device = -1;
              cudaGetDevice(&device);
              wrong += device == 5 - comm.rank() ? 0 : 1;
            },
            rendezvous_comm{host_comm}, {.deadline = 30s, .device = 5 - host_comm.rank()});
      },
      long_deadline);
  CHECK(wrong == 0);
}

TEST_CASE(
    "nccl: two ranks on one GPU are an error that names them and the host, before NCCL hangs") {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  nccl_double::gpus = 1;
  const std::string message = launch_error(2, [](nccl) {});
  nccl_double::gpus = 8;
  CHECK(
      contains(message, concat("ranks 0 and 1 have the same GPU, 0000:00:00.0 of ", host).c_str()));
}

TEST_CASE("nccl: more ranks than GPUs is an error with both values") {
  nccl_double::gpus = 2;
  const std::string message = launch_error(3, [](nccl) {});
  nccl_double::gpus = 8;
  CHECK(contains(message, "rank 2 has local rank 2 on a host with 2 GPUs"));
}

TEST_CASE("nccl: memory of a stream's pool is accessible to the GPUs of its process") {
  nccl_double::pools::instance().unshare();
  CHECK(launch_error(3, [](nccl comm) {
          const auto s = nccl_double_gpu::make_stream();
          auto* const x = static_cast<float*>(s.allocate(4));
          *x = static_cast<float>(comm.rank());
          comm.mean(span_on<float, nccl_double_gpu>{x, 1}, s);
          CHECK(*x == 1);
          s.release(x);
          s.finish();
          nccl_double_gpu::close(s);
        }) == "");
}

TEST_CASE("nccl: a steady exchange allocates nothing, neither for sizes nor for host memory") {
  const int pooled = nccl_double::pools::instance().allocations;
  std::atomic<int> mallocs{0};
  CHECK(launch_error(1, [&](nccl comm) {
          values x(100), y(100);
          const auto s = nccl_double_gpu::make_stream();
          const auto step = [&] {
            exchange(comm, {send(0, x)}, {receive(0, y)}, s);
            comm.mean(span_on<float, cpu>{x.data(), x.size()}, cpu::stream{});
            const std::array out{send_op<cpu>{0, bytes(span_on<const float, cpu>{x.data(), 100})}};
            const std::array in{recv_op<cpu>{0, bytes(span_on<float, cpu>{y.data(), 100})}};
            comm.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                          cpu::stream{});
          };
          step();
          mallocs = nccl_double::mallocs.load();
          for (int k = 0; k < 5; ++k) step();
          mallocs = nccl_double::mallocs - mallocs;
          nccl_double_gpu::close(s);
        }) == "");
  CHECK(mallocs == 0);
  CHECK(nccl_double::pools::instance().allocations == pooled);
}

TEST_CASE("nccl: communicators are made when first used, and launches have one order") {
  const int before = nccl_double::communicators;
  CHECK(launch_error(2, [](nccl) {}) == "");
  CHECK(nccl_double::communicators == before + 4);  // of 2 ranks: of reducers and of agreements
  CHECK(launch_error(2, [](nccl comm) {
          for (int k = 0; k < 3; ++k) {
            float x = 1;
            comm.duplicate(reply_context).mean(span_on<float, cpu>{&x, 1}, cpu::stream{});
          }
        }) == "");
  CHECK(nccl_double::communicators == before + 10);
  const char* const order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  REQUIRE(order != nullptr);
  CHECK(std::string(order) == "1");
}

TEST_CASE("nccl: no such context and no such peer are usage errors") {
  CHECK(launch_error(1, [](nccl comm) {
          values x(1);
          CHECK_THROWS_AS((void)comm.duplicate(4), usage_error);
          CHECK_THROWS_AS(exchange(comm, {send(1, x)}, {}, {}), usage_error);
          CHECK_THROWS_AS(exchange(comm, {}, {receive(-1, x)}, {}), usage_error);
        }) == "");
}

TEST_CASE("nccl: a deadline of 0 or less is refused, and the longest one waits") {
  CHECK(contains(launch_error(
                     1, [](nccl) {}, 0ms),
                 "nccl::options{.deadline}"));
  CHECK(launch_error(
            2, [](nccl) {}, std::chrono::milliseconds::max()) == "");
}
