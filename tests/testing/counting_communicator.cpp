// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/counting_communicator.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

// A transport without fused add and native mean.
static_assert(TransportOn<counting_communicator<threads>, cpu>);
static_assert(FusedAddOn<threads, float, cpu> &&
              !FusedAddOn<counting_communicator<threads>, float, cpu>);
static_assert(NativeMeanOn<threads, float, cpu> &&
              !NativeMeanOn<counting_communicator<threads>, float, cpu>);
static_assert(counting_communicator<threads>::blocks_host == threads::blocks_host);

namespace {

// One message of `bytes` to the next rank, one from the previous; returns the last byte received.
template <class Communicator>
std::byte send_to_next(const Communicator& comm, std::size_t bytes) {
  std::vector<std::byte> sent(bytes, static_cast<std::byte>(comm.rank())), received(bytes);
  const int p = comm.size();
  const std::array out{send_op<cpu>{(comm.rank() + 1) % p, {sent.data(), bytes}}};
  const std::array in{recv_op<cpu>{(comm.rank() + p - 1) % p, {received.data(), bytes}}};
  comm.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                cpu::stream{});
  return received.back();
}

}  // namespace

TEST_CASE("counting_communicator: messages and bytes are counted in every context, and arrive") {
  for (const int ranks : {2, 3, 5})
    for (const traffic& t : on_ranks(ranks, [&](threads comm) {
           traffic sent;
           const counting_communicator counting{comm, &sent};
           CHECK((counting.rank() == comm.rank() && counting.size() == ranks));
           const auto previous = static_cast<std::byte>((comm.rank() + ranks - 1) % ranks);
           CHECK(send_to_next(counting, 100) == previous);
           CHECK(send_to_next(counting.duplicate(1), 23) == previous);
           return sent;
         })) {
      CHECK(t.messages == 2);
      CHECK(t.bytes == 123);
    }
}

TEST_CASE("counting_communicator: a rank that only receives counts nothing") {
  const auto sent = on_ranks(2, [](threads comm) {
    traffic t;
    std::array<std::byte, 8> x{};
    const std::array out{send_op<cpu>{1, {x.data(), x.size()}}};
    const std::array in{recv_op<cpu>{0, {x.data(), x.size()}}};
    const bool sends = comm.rank() == 0;
    counting_communicator{comm, &t}.exchange(
        std::span<const send_op<cpu>>(out).first(sends ? 1 : 0),
        std::span<const recv_op<cpu>>(in).first(sends ? 0 : 1), cpu::stream{});
    return t;
  });
  CHECK((sent[0].messages == 1 && sent[0].bytes == 8));
  CHECK((sent[1].messages == 0 && sent[1].bytes == 0));
}

TEST_CASE("counting_communicator: rounds follow a chain of messages from rank to rank") {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto sent = on_ranks(ranks, [&](threads comm) {
      traffic t;
      const counting_communicator counting{comm, &t};
      std::array<std::byte, 8> x{};
      const std::array out{send_op<cpu>{comm.rank() + 1, {x.data(), x.size()}}};
      const std::array in{recv_op<cpu>{comm.rank() - 1, {x.data(), x.size()}}};
      if (comm.rank() > 0)
        counting.exchange(std::span<const send_op<cpu>>(), std::span<const recv_op<cpu>>(in),
                          cpu::stream{});
      if (comm.rank() + 1 < ranks)
        counting.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(),
                          cpu::stream{});
      return t;
    });
    // Rank r receives in round r, though it takes part in two exchanges at most.
    CHECK(sent.back().rounds == static_cast<std::size_t>(ranks - 1));
    for (std::size_t r = 0; r + 1 < sent.size(); ++r) CHECK(sent[r].rounds == r + 1);
  }
}

TEST_CASE("counting_communicator: contexts used by two threads at once lose no count") {
  for (const traffic& t : on_ranks(2, [](threads comm) {
         traffic sent;
         const counting_communicator counting{comm, &sent};
         std::thread second([context = counting.duplicate(1)] {
           for (int k = 0; k < 500; ++k) send_to_next(context, 3);
         });
         for (int k = 0; k < 500; ++k) send_to_next(counting, 5);
         second.join();
         return sent;
       })) {
    CHECK(t.messages == 1000);
    CHECK(t.bytes == 500 * 8);
  }
}

TEST_CASE("counting_communicator: abort() reaches the communicator below") {
  const std::string thrown = error_message([] {
    on_ranks(2, [](threads comm) {
      traffic sent;
      const counting_communicator counting{comm, &sent};
      if (comm.rank() == 1)
        counting.abort("cause of the abort");
      else
        send_to_next(counting, 4);
      return 0;
    });
  });
  CHECK(contains(thrown, "cause of the abort"));
}
