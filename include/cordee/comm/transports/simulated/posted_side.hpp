// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One side of simulated messages: what has posted them, and when.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/comm/transports/simulated/critical_path.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct posted_side {
  std::size_t fiber;
  int rank;
  critical_path posted;
  std::uint64_t rounds;       // that had ended on the rank
  std::size_t size = 0;       // of one message
  std::byte* data = nullptr;  // none on a device without memory
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
