// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Two threads of one rank in the laws of transports and reducers; fibers, where ranks are fibers.
#pragma once

#include <thread>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

/// Effects: f() beside g(); f begins first, and does not throw.
template <class Communicator, class F, class G>
void concurrently(const Communicator& comm, const F& f, const G& g) {
  if constexpr (requires { comm.concurrently(f, g); }) {
    comm.concurrently(f, g);
  } else {
    std::thread second(f);
    try {
      g();
    } catch (...) {
      second.join();
      throw;
    }
    second.join();
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::testing
