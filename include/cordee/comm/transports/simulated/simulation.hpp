// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a simulated run is given, and what it amounts to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/machine.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Rounds on the critical path as in testing/counting_communicator.hpp; messages and bytes that all
/// ranks sent.
struct simulation {
  critical_path path{};  // to the fiber that ends last
  std::uint64_t rounds = 0, messages = 0, bytes = 0;
  std::size_t fibers = 0;  // the most at once
};

namespace detail::comm {

struct simulation_options {
  ideal_network network{};
  std::optional<machine> contended{};              // instead of `network`: messages share its links
  double seconds_per_reduced_byte = 0;             // gamma
  std::size_t stack_bytes = std::size_t{1} << 18;  // of each rank
  std::function<void(const simulated_transfer&)> on_transfer{};  // called for each message
};

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
