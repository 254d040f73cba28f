// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rendezvous of ranks of one machine: a rank, and the port at which rank 0 is found, are given.
#pragma once

#include <optional>
#include <string>

#include <cordee/comm/transports/bootstrap/rendezvous.hpp>

namespace support {

struct given_port {
  cordee::detail::comm::rank_assignment rank;
  int server_port;
  [[nodiscard]] cordee::detail::comm::rank_assignment assignment() const { return rank; }
  [[nodiscard]] int port() const { return server_port; }
  [[nodiscard]] static std::string host() { return "127.0.0.1"; }
  [[nodiscard]] static std::string secret() { return "of the test"; }
  void publish(const cordee::detail::comm::bootstrap_address&) const {}
  [[nodiscard]] std::optional<cordee::detail::comm::bootstrap_address> find() const {
    return cordee::detail::comm::bootstrap_address{server_port, secret(), {host()}};
  }
};

}  // namespace support
