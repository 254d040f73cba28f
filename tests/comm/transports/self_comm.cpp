// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages of a rank to itself.
#include <array>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/device/cpu.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

struct message {
  std::vector<std::byte> bytes;

  explicit message(std::size_t n, int value = 0)
      : bytes(n, std::byte{static_cast<unsigned char>(value)}) {}
  send_op<cpu> send(int peer = 0) { return {peer, {bytes.data(), bytes.size()}}; }
  recv_op<cpu> receive(int peer = 0) { return {peer, {bytes.data(), bytes.size()}}; }
};

void exchange(std::initializer_list<send_op<cpu>> out, std::initializer_list<recv_op<cpu>> in) {
  const std::vector<send_op<cpu>> sends(out);
  const std::vector<recv_op<cpu>> receives(in);
  self_comm{}.exchange<cpu>(sends, receives, {});
}

/// A GPU that counts how often one is chosen by default.
struct default_counting : emulated {
  static inline int made = 0;
  explicit default_counting(int) {}
  default_counting() { ++made; }
};

}  // namespace

static_assert(TransportOn<self_comm, cpu> && !FusedAddOn<self_comm, float, cpu> &&
              !Abortable<self_comm>);

TEST_CASE("self_comm: rank 0 of 1 on every context") {
  for (int k = 0; k < context_count; ++k) {
    CHECK(self_comm{}.duplicate(k).rank() == 0);
    CHECK(self_comm{}.duplicate(k).size() == 1);
  }
}

TEST_CASE("self_comm: messages arrive in the order of the lists, of any length") {
  message a(5, 1), b(0, 2), c(5, 3), first(5), second(0), third(5);
  exchange({a.send(), b.send(), c.send()}, {first.receive(), second.receive(), third.receive()});
  CHECK(first.bytes == a.bytes);
  CHECK(third.bytes == c.bytes);
  exchange({}, {});
}

TEST_CASE("self_comm: GPU memory is copied by the stream, and no other GPU is chosen") {
  const default_counting device(0);
  const auto s = device.make_stream();
  std::array<float, 2> x{1, 2};
  const std::array out{send_op<default_counting>{0, {reinterpret_cast<std::byte*>(&x[0]), 4}}};
  const std::array in{recv_op<default_counting>{0, {reinterpret_cast<std::byte*>(&x[1]), 4}}};
  self_comm{}.exchange<default_counting>(out, in, s);
  CHECK(x[1] == 1);
  CHECK(default_counting::made == 0);
}

TEST_CASE("self_comm: an unreceived message, another size and another rank are usage errors") {
  message a(5), b(5), longer(6);
  CHECK(contains(error_message([&] { exchange({a.send()}, {}); }), "must be received"));
  CHECK(contains(error_message([&] { exchange({}, {a.receive()}); }), "must be received"));
  CHECK(contains(error_message([&] { exchange({a.send()}, {longer.receive()}); }), "size differs"));
  CHECK(contains(error_message([&] { exchange({a.send(1)}, {b.receive()}); }), "only rank is 0"));
  CHECK(contains(error_message([&] { exchange({a.send()}, {b.receive(1)}); }), "only rank is 0"));
}
