// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What an optimizer that exchanges momenta says of a bucket: whether its mean must be exact, and
// whether the bucket is of another quantity than those before (optim/optimizer.hpp).
#pragma once

#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// A bucket of a proposal, whose slots are cleared where the optimizer discards residuals.
template <class O, class Planes, class Proposal, class Scratch>
auto proposed_bucket([[maybe_unused]] const O& optimizer, [[maybe_unused]] const step_info& info,
                     Planes& planes, const bucket& b, Proposal proposal, Scratch scratch,
                     [[maybe_unused]] typename Planes::stream s) {
  auto view = planes.bucket_view_of(b, proposal, scratch);
  if constexpr (optim::compresses_momentum<O>()) {
    view.exact = optim::exchanges_exactly(optimizer, info);
    if (optim::discards_residuals(optimizer, info))
      for (const auto& slot : view.slots) planes.clear(slot, s);
  }
  return view;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
