// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options and results of a simulated run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/machine.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/option_range.hpp>

namespace cordee::inline CORDEE_ABI {

/// What simulated::launch returns.
struct simulation {
  /// Critical path to the end of the last fiber.
  critical_path path{};
  /// Rounds on the critical path, as in testing/counting_communicator.hpp; messages and bytes sent
  /// by all ranks.
  std::uint64_t rounds = 0, messages = 0, bytes = 0;
  std::size_t fibers = 0;  ///< Largest number of fibers at once.
};

namespace detail::comm {

struct simulation_options {
  ideal_network network{};  ///< A network without contention.
  /// A machine instead of `network`, in which messages share links.
  std::optional<machine> contended{};
  /// Time to add a byte to another on device `phantom`: gamma of the cost model. Unit: seconds.
  /// Range: finite, 0 or more, else usage_error.
  double seconds_per_reduced_byte = 0;
  /// Address space of each fiber's stack; memory is committed as it grows. Unit: bytes. Range: what
  /// `f` needs, else the process crashes at a guard page.
  std::size_t stack_bytes = std::size_t{1} << 18;
  /// Called for each message that arrives; on an ideal network not in order of time.
  std::function<void(const simulated_transfer&)> on_transfer{};
};

/// Throws usage_error for an option outside its range; those of a machine its links() checks.
[[gnu::cold]] inline void check_simulation(const simulation_options& o) {
  expects_links("ideal_network", {{".link", o.network.link}, {".inside", o.network.inside}});
  core::expects_not_negative("ideal_network", ".ranks_per_node", o.network.ranks_per_node);
  core::expects_not_negative("simulated::options", ".seconds_per_reduced_byte",
                             o.seconds_per_reduced_byte);
}

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
