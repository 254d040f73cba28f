// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An exchange that is accepted some steps after it begins. The optimizer that asks for it, or one
// that it wraps, has
//
//   static constexpr bool delays_exchange = true;
//   int steps;                                      from the post to its accept
//
// and proposes memory that no step but that accept uses (optim/overlapped.hpp). The courier's
// thread mixes beside the steps between. In the posting step itself the trainer waits where the
// exchange is work of a stream, or where two contexts of a transport are not to be used at once.
#pragma once

#include <cstdint>
#include <type_traits>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Whether the optimizer, or one inside it, has its exchanges accepted later.
template <class O>
consteval bool delays_exchange() {
  if constexpr (requires { requires O::delays_exchange; })
    return true;
  else if constexpr (requires(const O o) { o.optimizer; })
    return delays_exchange<std::remove_cvref_t<decltype(O::optimizer)>>();
  else
    return false;
}
/// Steps from a post to its accept; 0 in the same one.
template <class O>
std::int64_t exchange_delay([[maybe_unused]] const O& optimizer) {
  if constexpr (requires { requires O::delays_exchange; })
    return optimizer.steps;
  else if constexpr (delays_exchange<O>())
    return exchange_delay(optimizer.optimizer);
  else
    return 0;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
