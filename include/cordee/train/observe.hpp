// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Once a step: the ranks agree on the ranges that their quantised layers saw, and the ranges move.
// One message for all layers; nothing for precisions that do not quantise.
#pragma once

#include <span>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/nn/quantisation.hpp>

namespace cordee::inline CORDEE_ABI {

/// Collective. A rank whose step does not count says that it saw nothing.
template <class M, class Link, class Plane>
void observe(M& model, const Link& link, Plane weights, const moment& now, bool counts) {
  if constexpr (requires { model.quantisation.watch; }) {
    std::vector<double> seen = model.quantisation.watch.take(counts);
    agree(link, std::span(seen), minimum{});
    model.quantisation.learn(weights.data, seen, now.epoch);
  }
}

}  // namespace cordee::inline CORDEE_ABI
