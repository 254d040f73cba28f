// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A toy rule that needs one mixing: decentralised SGD, adapt then combine. And a link that is as
// slow as a wire.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include <cordee/comm/reducer.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace support {

using namespace cordee;

/// x <- W (x - rate g): says the trial point, written over g, and takes what comes back.
struct adapt_then_combine {
  static constexpr agreement needs = agreement::mixing;
  static constexpr bool eager = true;
  static constexpr int slots = 0;
  static constexpr when norms = when::never;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment& now,
                           typename D::stream s) const {
    segmented_for(s, v.segments, [&](std::size_t, std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        v.grads[i] = v.weights[i] - static_cast<Real>(now.rate) * v.grads[i];
    });
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment&, typename D::stream s) const {
    segmented_for(s, v.segments, [&](std::size_t, std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) v.weights[i] = v.grads[i];
    });
  }
  [[nodiscard]] std::string describe() const { return "adapt then combine"; }
};

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
