// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A link that is as slow as a wire.
#pragma once

#include <chrono>
#include <thread>

#include <cordee/comm/transport.hpp>

namespace support {

using namespace cordee;

/// Another link whose messages take latency + bytes / bandwidth; it cannot add by itself.
template <class Link>
struct slowed {
  static constexpr bool blocks_host = Link::blocks_host;

  Link link;
  double bytes_per_second = 1e9;
  std::chrono::microseconds latency{0};

  [[nodiscard]] int rank() const { return link.rank(); }
  [[nodiscard]] int size() const { return link.size(); }
  [[nodiscard]] slowed lane(int k) const { return {link.lane(k), bytes_per_second, latency}; }
  void abandon(const char* why) const { link.abandon(why); }

  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    std::size_t bytes = 0;
    for (const auto& m : out) bytes += m.bytes.size;
    const auto wire = std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second);
    const auto end = std::chrono::steady_clock::now() + latency + wire;
    link.exchange(out, in, s);
    std::this_thread::sleep_until(end);
  }
};
template <class Link>
slowed(Link, double, std::chrono::microseconds) -> slowed<Link>;

}  // namespace support
