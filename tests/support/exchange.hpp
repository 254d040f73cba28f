// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exchanges of host vectors: exchange(comm, {send(1, x)}, {receive(1, y)}).
#pragma once

#include <span>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace support {

using namespace cordee;

template <class T>
send_op<cpu> send(int peer, std::vector<T>& x) {
  return {peer, bytes(span_on<T, cpu>{x.data(), x.size()})};
}
template <class T>
recv_op<cpu> receive(int peer, std::vector<T>& x) {
  return {peer, bytes(span_on<T, cpu>{x.data(), x.size()})};
}
template <class Communicator>
void exchange(const Communicator& comm, std::vector<send_op<cpu>> out,
              std::vector<recv_op<cpu>> in) {
  comm.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                cpu::stream{});
}

}  // namespace support
