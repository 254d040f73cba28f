// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks say to each other where a transport is on trial.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <cordee/comm/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail {

using word = std::vector<float>;

inline to<cpu> tell(int peer, const word& what) {
  return {peer, const_bytes(span_on<const float, cpu>{what.data(), what.size()})};
}
inline from<cpu> hear(int peer, word& what) {
  return {peer, bytes(span_on<float, cpu>{what.data(), what.size()})};
}
template <class Link>
void exchange(const Link& link, const std::vector<to<cpu>>& out, const std::vector<from<cpu>>& in) {
  link.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
}
/// Thirds, whose sums depend on the order.
inline word thirds(int rank, std::size_t n) {
  word x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(rank * 1000 + static_cast<int>(i % 97)) / 3;
  return x;
}
inline bool equal(const word& a, const word& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace cordee::inline CORDEE_ABI::detail
