// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual time, and the messages and reductions that make it up.
#pragma once

#include <cstdint>
#include <initializer_list>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/option_range.hpp>

namespace cordee::inline CORDEE_ABI {

/// The chain of messages and reductions that ends last: on links of one speed
/// seconds = messages * latency + bytes / bandwidth + reduced_bytes * gamma.
struct critical_path {
  double seconds = 0;  ///< Time at which it ends.
  /// Messages on it, their bytes, and the bytes reduced on it.
  std::uint64_t messages = 0, bytes = 0, reduced_bytes = 0;
};

/// Speed of a link: a message of n bytes takes latency + n / bandwidth.
struct link_parameters {
  /// Unit: seconds; bytes a second. Range: finite, 0 or more; finite, above 0, else usage_error.
  double latency = 0, bandwidth = 1e30;
};

/// A message that has arrived.
struct simulated_transfer {
  /// Ranks of the sender and the receiver.
  int from, to;
  std::uint64_t bytes;  ///< Its length.
  /// When both sides were ready, and when the message arrived. Unit: seconds.
  double begin, end;
};

/// A network without contention: a rank sends one message and receives one message at a time, and
/// nothing else delays a message. Ranks on one node have faster links.
struct ideal_network {
  link_parameters link{};    ///< Between nodes.
  link_parameters inside{};  ///< Between the ranks of a node.
  /// Consecutive ranks on each node; 0: all messages use `link`. Range: 0 or more, else
  /// usage_error.
  int ranks_per_node = 0;

  /// Link between two ranks; a message to oneself needs no time.
  [[nodiscard]] link_parameters between(int a, int b) const {
    if (a == b) return {};
    return ranks_per_node > 0 && a / ranks_per_node == b / ranks_per_node ? inside : link;
  }
};

namespace detail::comm {

struct named_link {
  const char* name;
  link_parameters speed;
};
/// Throws usage_error for a latency or a bandwidth outside its range.
[[gnu::cold]] inline void expects_links(const char* network,
                                        std::initializer_list<named_link> links) {
  for (const auto& [name, speed] : links) {
    core::expects_not_negative(network, concat(name, ".latency"), speed.latency);
    core::expects_positive(network, concat(name, ".bandwidth"), speed.bandwidth);
  }
}
/// The one that ends later; `a` if both end at once.
inline const critical_path& later(const critical_path& a, const critical_path& b) {
  return b.seconds > a.seconds ? b : a;
}
/// `path`, and then one message.
inline critical_path after_message(critical_path path, std::uint64_t bytes, link_parameters speed) {
  path.seconds += speed.latency + static_cast<double>(bytes) / speed.bandwidth;
  ++path.messages;
  path.bytes += bytes;
  return path;
}

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
