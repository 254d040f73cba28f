// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between ranks in the laws of transports: vectors of float.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

using message = std::vector<float>;

inline send_op<cpu> send_to(int peer, const message& m) {
  return {peer, bytes(span_on<const float, cpu>{m.data(), m.size()})};
}
inline recv_op<cpu> receive_from(int peer, message& m) {
  return {peer, bytes(span_on<float, cpu>{m.data(), m.size()})};
}
template <class Communicator>
void exchange(const Communicator& comm, const std::vector<send_op<cpu>>& out,
              const std::vector<recv_op<cpu>>& in) {
  comm.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                cpu::stream{});
}
/// Lengths of messages: none, fewer numbers than ranks, than a unit of 64 for each, and long ones.
inline constexpr std::array<std::size_t, 8> law_lengths{0, 1, 7, 64, 1000, 1024, 5003, 70'001};

/// n thirds of integers, other ones on each rank; their sums depend on the order.
inline message thirds(int rank, std::size_t n) {
  message x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(rank * 1000 + static_cast<int>(i % 97)) / 3;
  return x;
}

}  // namespace cordee::inline CORDEE_ABI::detail::testing
