// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks are threads here, each with a libzmq context and connections of its own; as processes they
// run in zeromq/world.cpp.
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/comm/transports/zeromq.hpp>
#include <cordee/device/local_rank.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/zeromq_ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<zeromq, cpu> && TransportOn<zeromq, emulated> && Abortable<zeromq>);
static_assert(AnySource<zeromq>);

TEST_CASE("zeromq: it keeps the laws of transports") {
  CHECK(transport_laws(launch_zeromq,
                       {.ranks = {1, 2, 3, 5, 8}, .patience = 30s, .impatience = 1s}) == "");
}

TEST_CASE("zeromq: transfers of many chunks arrive whole, in both directions and beside others") {
  for (const int ranks : {1, 2, 3}) {
    const std::string thrown = error_message([&] {
      launch_zeromq(
          ranks,
          [](zeromq comm) {
            const int p = comm.size(), next = (comm.rank() + 1) % p,
                      before = (comm.rank() + p - 1) % p;
            for (const std::size_t n :
                 {zeromq_chunk - 1, zeromq_chunk, zeromq_chunk + 1, 40 * zeromq_chunk + 7}) {
              std::vector<std::byte> own(n), received(n), last(3);
              for (std::size_t i = 0; i < n; ++i)
                own[i] =
                    static_cast<std::byte>(i * 7 + static_cast<std::size_t>(comm.rank()) + i / 251);
              const std::array out{send_op<cpu>{next, {own.data(), n}},
                                   send_op<cpu>{next, {own.data(), 3}}};
              const std::array in{recv_op<cpu>{before, {received.data(), n}},
                                  recv_op<cpu>{before, {last.data(), 3}}};
              comm.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                            cpu::stream{});
              bool same = true;
              for (std::size_t i = 0; i < n; ++i)
                same =
                    same && received[i] == static_cast<std::byte>(
                                               i * 7 + static_cast<std::size_t>(before) + i / 251);
              CHECK(same);
              CHECK(last[2] == received[2]);
            }
          },
          30s);
    });
    CHECK(thrown == "");
  }
}

TEST_CASE("zeromq: each rank of a machine has another GPU, which they share on request alone") {
  using detail::device::default_ordinal;
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const bool share : {false, true}) {
      const std::string thrown = error_message([&] {
        threads::launch(
            ranks,
            [&](threads host_comm) {
              zeromq::launch(
                  [&](zeromq comm) {
                    const auto ordinal = [](int gpus) {
                      return default_ordinal([gpus] { return gpus; }, [] { return -1; });
                    };
                    CHECK(ordinal(8) == comm.rank());
                    const std::string message = error_message([&] { (void)ordinal(1); });
                    CHECK(contains(message, "zeromq::options{.share_gpus = true}") ==
                          (ranks > 1 && !share));
                    if (share) CHECK(ordinal(2) == comm.rank() % 2);
                  },
                  rendezvous_comm{host_comm}, {.deadline = 30s, .share_gpus = share});
            },
            {.deadline = 60s});
      });
      CHECK(thrown == "");
    }
}

TEST_CASE("zeromq: a send alone returns when its peer has consumed it, and not before") {
  std::atomic<bool> consumed = false;
  const std::string thrown = error_message([&] {
    launch_zeromq(
        2,
        [&](zeromq comm) {
          std::vector<std::byte> x(5);
          if (comm.rank() == 0) {
            const std::array out{send_op<cpu>{1, {x.data(), x.size()}}};
            comm.exchange(std::span<const send_op<cpu>>(out), {}, cpu::stream{});
            CHECK(consumed);
          } else {
            std::this_thread::sleep_for(100ms);
            consumed = true;
            const std::array in{recv_op<cpu>{0, {x.data(), x.size()}}};
            comm.exchange(std::span<const send_op<cpu>>(), std::span<const recv_op<cpu>>(in),
                          cpu::stream{});
          }
        },
        30s);
  });
  CHECK(thrown == "");
}

TEST_CASE(
    "zeromq: a message of another size is an error with both ranks, both sizes and the context") {
  for (const std::size_t sent : {12u, 20u, 0u, 4'000'000u}) {
    CAPTURE(sent);
    const std::string thrown = error_message([&] {
      launch_zeromq(
          2,
          [&](zeromq comm) {
            std::vector<std::byte> own(sent), received(16);
            const std::array out{send_op<cpu>{1, {own.data(), sent}}};
            const std::array in{recv_op<cpu>{0, {received.data(), 16}}};
            if (comm.rank() == 0)
              comm.duplicate(1).exchange(std::span<const send_op<cpu>>(out), {}, cpu::stream{});
            else
              comm.duplicate(1).exchange(std::span<const send_op<cpu>>(),
                                         std::span<const recv_op<cpu>>(in), cpu::stream{});
          },
          30s);
    });
    CHECK(contains(
        thrown,
        concat("rank 1 expects 16 bytes from rank 0 on context 1, which sends ", sent).c_str()));
  }
}

TEST_CASE("zeromq: a message that is never received is an error at the end") {
  const std::string thrown = error_message([] {
    launch_zeromq(
        2,
        [](zeromq comm) {
          std::vector<std::byte> x(5), y(5);
          const int peer = 1 - comm.rank();
          const std::array two{send_op<cpu>{peer, {x.data(), 5}},
                               send_op<cpu>{peer, {x.data(), 5}}};
          const std::array in{recv_op<cpu>{peer, {y.data(), 5}}};
          comm.exchange(std::span<const send_op<cpu>>(two).first(comm.rank() == 0 ? 2 : 1),
                        std::span<const recv_op<cpu>>(in), cpu::stream{});
          std::this_thread::sleep_for(50ms);  // so that the second one is there
        },
        30s);
  });
  CHECK(contains(thrown, "rank 0 sent 5 bytes to rank 1 on context 0, which has left the run"));
}

TEST_CASE("zeromq: ranks that listen at the loopback refuse a master of another host") {
  struct at_another_host {
    [[nodiscard]] static rank_assignment assignment() { return {0, 2, "the test"}; }
    [[nodiscard]] static int port() { return 0; }
    [[nodiscard]] static std::string host() { return "192.0.2.1"; }  // RFC 5737: of no host
    [[nodiscard]] static std::string secret() { return {}; }
    void publish(const bootstrap_address&) const {}
    [[nodiscard]] std::optional<bootstrap_address> find() const { return {}; }
  };
  CHECK(contains(error_message([] { zeromq::launch([](zeromq) {}, at_another_host{}); }),
                 "rank 0 is at 192.0.2.1, but ranks listen at 127.0.0.1"));
  CHECK(contains(error_message([] {
                   threads::launch(1, [](threads comm) {
                     zeromq::launch([](zeromq) {}, rendezvous_comm{comm},
                                    {.listen = "no such interface"});
                   });
                 }),
                 "cannot listen at no such interface"));
}

TEST_CASE("zeromq: GPU memory is staged") {
  const std::string thrown = error_message([] {
    launch_zeromq(
        2,
        [](zeromq comm) {
          emulated device;
          const auto s = device.make_stream();
          std::vector<float> own(1000, static_cast<float>(comm.rank())), received(1000, -1);
          const int peer = 1 - comm.rank();
          const std::array out{send_op<emulated>{
              peer, bytes(span_on<const float, emulated>{own.data(), own.size()})}};
          const std::array in{
              recv_op<emulated>{peer, bytes(span_on<float, emulated>{received.data(), 1000})}};
          comm.exchange(std::span<const send_op<emulated>>(out),
                        std::span<const recv_op<emulated>>(in), s);
          CHECK(received == std::vector<float>(1000, static_cast<float>(peer)));
        },
        30s);
  });
  CHECK(thrown == "");
}

TEST_CASE("zeromq: a deadline of 0 or less is refused, and the longest one waits") {
  CHECK(contains(error_message([] { zeromq::launch([](zeromq) {}, {.deadline = 0ms}); }),
                 "zeromq::options{.deadline}"));
  const std::string thrown = error_message([] {
    launch_zeromq(
        2,
        [](zeromq comm) {
          if (comm.rank() == 0) std::this_thread::sleep_for(5ms);
          int x = 0;
          const std::array out{send_op<cpu>{1, bytes(span_on<const int, cpu>{&x, 1})}};
          const std::array in{recv_op<cpu>{0, bytes(span_on<int, cpu>{&x, 1})}};
          const auto rank = static_cast<std::size_t>(comm.rank());
          comm.exchange(std::span<const send_op<cpu>>(out.data(), 1 - rank),
                        std::span<const recv_op<cpu>>(in.data(), rank), cpu::stream{});
        },
        std::chrono::milliseconds::max());
  });
  CHECK(thrown == "");
}
