// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/socket_address.hpp>

using namespace cordee::detail::comm;

TEST_CASE("socket_address: an address and a port as text, IPv6's in brackets") {
  CHECK(with_port("10.0.0.7", 80) == "10.0.0.7:80");
  CHECK(with_port("fe80::1%eth0", 80) == "[fe80::1%eth0]:80");
  CHECK(without_brackets("[::1]") == "::1");
  for (const char* other : {"", "[]", "node1", "[::1]:80", "::1"})
    CHECK(without_brackets(other) == other);
  CHECK(is_loopback("127.0.1.1"));
  CHECK(is_loopback("::1"));
  for (const char* other : {"", "10.0.0.127", "::", "::12"}) CHECK_FALSE(is_loopback(other));
  CHECK(socket_address().host() == "");
  CHECK(socket_address::all(AF_INET, 80).host() == "0.0.0.0");
  CHECK(socket_address::all(AF_INET6, 80).host() == "::");
  CHECK(socket_address::all(AF_INET6, 80).port() == 80);
}

TEST_CASE("resolve: addresses of both families stand for themselves, with their port") {
  for (const std::string text : {"127.0.0.1", "::1", "2001:db8::7", "fe80::1%lo"}) {
    for (const std::string& host : {text, "[" + text + "]"}) {
      const resolved_host found = resolve(host, 29500, AI_NUMERICHOST);
      REQUIRE(found.addresses.size() == 1);
      CHECK(found.addresses.front().host() == text);
      CHECK(found.addresses.front().port() == 29500);
      CHECK(found.failure == "");
      CHECK(found.has_loopback_only() == is_loopback(text));
    }
  }
  CHECK(resolve("::ffff:10.0.0.7", 1).addresses.at(0).host() == "10.0.0.7");
  CHECK(resolve("localhost", 1).has_loopback_only());
}

TEST_CASE("resolve: what is no address, and a name that is not known, have a reason") {
  for (const char* wrong : {"[::1]:29500", "::1:2:3:4:5:6:7:8", "fe80::1%no.such.interface", "a b"})
    CHECK(resolve(wrong, 1, AI_NUMERICHOST).failure != "");
  for (const char* name : {"no.such.name.invalid", "*"}) {
    const resolved_host unknown = resolve(name, 1);
    CHECK(unknown.addresses.empty());
    CHECK(unknown.failure != "");
    CHECK_FALSE(unknown.has_loopback_only());
  }
}
