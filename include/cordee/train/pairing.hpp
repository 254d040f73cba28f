// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which rule may meet which reducer: one sentence for each kind of wrong pairing.
//
//   what the reducer offers >= what the rule needs      loose < mixing < exact
//   a wire that loses bits carries gradients, never positions
#pragma once

#include <cordee/comm/reducer.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// `holds`, or it does not compile. Three sentences stand before the concept `Agrees`, which says
/// the same without words.
template <class O, class R>
struct pairing {
  static_assert(
      R::offers == agreement::exact || O::needs != agreement::exact,
      "this optimizer exchanges gradients, which every rank must receive averaged exactly: "
      "use an exact reducer such as ring, wrap the optimizer in local, or choose decentlam");
  static_assert(
      R::lossless || O::needs == agreement::exact,
      "this optimizer exchanges positions, whose differences a lossy wire would drown: use "
      "a reducer that keeps every bit, or an optimizer that exchanges gradients");
  static_assert(R::offers >= O::needs,
                "this optimizer needs one memoryless mixing of what it says: use a gossiping or an "
                "exact reducer, or wrap the optimizer in local");
  static constexpr bool holds = true;
};

}  // namespace cordee::inline CORDEE_ABI
