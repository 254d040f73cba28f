// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Two contexts of one rank at once in the laws of transports and reducers: by two threads; by
// fibers, where ranks are fibers; one behind the other, where contexts are not concurrent.
#pragma once

#include <thread>

#include <cordee/comm/transports/transport.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

/// Effects: f() beside g(); f begins first, and does not throw. If the communicator's contexts are
/// not concurrent, f() and then g(): on every rank the same order.
template <class Communicator, class F, class G>
void concurrently(const Communicator& comm, const F& f, const G& g) {
  if constexpr (!comm::has_concurrent_contexts<Communicator>()) {
    f();
    g();
  } else if constexpr (requires { comm.concurrently(f, g); }) {
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
