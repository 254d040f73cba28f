// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The times of one wait for peers: since when it counts, when its messages were inspected last,
// since when a peer of it is known to have left the run.
#pragma once

#include <chrono>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class wait_timer {
 public:
  using clock = std::chrono::steady_clock;

  /// `inspect_every`: the interval of inspections. `left_grace`: for how long messages that a peer
  /// sent before it left may still arrive.
  wait_timer(clock::time_point now, clock::duration inspect_every, clock::duration left_grace)
      : inspect_every_(inspect_every), left_grace_(left_grace), start_(now), inspected_(now) {}

  /// The wait counts from now.
  void restart(clock::time_point now) { start_ = now; }
  [[nodiscard]] clock::duration elapsed(clock::time_point now) const { return now - start_; }

  /// Whether an inspection is due; if so, it counts as made.
  bool inspection_due(clock::time_point now) {
    if (now - inspected_ <= inspect_every_) return false;
    inspected_ = now;
    return true;
  }
  /// Whether `peer`, which has left the run as known now, or -1, has been known to have left for
  /// longer than the grace, so that nothing more arrives from it.
  bool left_for_good(int peer, clock::time_point now) {
    if (peer != left_peer_) {
      left_peer_ = peer;
      left_since_ = now;
    }
    return peer >= 0 && now - left_since_ > left_grace_;
  }

 private:
  clock::duration inspect_every_, left_grace_;
  clock::time_point start_, inspected_, left_since_{};
  int left_peer_ = -1;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
