// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/transports/zeromq/socket.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee::detail::comm;
using support::contains, support::error_message;

TEST_CASE("zeromq_socket: messages travel between two, and a full queue is not an error") {
  const zeromq_context context;
  const zeromq_socket a(context, ZMQ_PAIR), b(context, ZMQ_PAIR);
  for (const zeromq_socket* s : {&a, &b}) {
    s->set(ZMQ_LINGER, 0);
    s->set(ZMQ_SNDHWM, 2);
    s->set(ZMQ_RCVHWM, 2);
  }
  REQUIRE(zmq_bind(b.get(), "inproc://b") == 0);
  a.connect("inproc://b");
  int sent = 0;
  for (bool room = true; room && sent < 100; sent += room ? 1 : 0) {
    zeromq_message m(3);
    std::memcpy(m.data(), "abc", 3);
    room = a.try_send(m);
  }
  CHECK(sent == 4);
  zeromq_message m;
  for (int k = 0; k < sent; ++k) {
    REQUIRE(b.try_receive(m));
    CHECK(m.text() == "abc");
    CHECK_FALSE(m.is_followed());
  }
  CHECK_FALSE(b.try_receive(m));
}

TEST_CASE("zeromq_socket: a call that fails throws its name and the reason") {
  const zeromq_context context;
  const zeromq_socket s(context, ZMQ_PAIR);
  CHECK(contains(error_message([&] { s.connect("no://where"); }),
                 "ZeroMQ: connect to no://where: Protocol not supported"));
  CHECK(contains(error_message([&] { s.set(-1, 0); }), "ZeroMQ: zmq_setsockopt: Invalid argument"));
}
