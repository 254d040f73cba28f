// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the ranks will agree, before the first step, and how far they are from it, during the
// run.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// What the ranks' disagreement is multiplied by in a round; 0 where rule and reducer leave none.
template <class O, class R>
double disagreement_radius(const O& rule, const R& reducer) {
  if constexpr (MovesConsensus<O> && Gossips<R>) return reducer.radius(rule.moves());
  return 0;
}

/// Throws unless the ranks' disagreement shrinks; names what would help, where the reducer knows.
template <class O, class R>
void expect_stable(const O& rule, const R& reducer) {
  if constexpr (MovesConsensus<O> && Gossips<R>) {
    const consensus how = rule.moves();
    const double radius = disagreement_radius(rule, reducer);
    if (radius < largest_stable_radius) return;
    if (std::isnan(radius))
      throw error(
          "trainer: nobody can tell whether momentum survives this graph: it is random, or has "
          "more "
          "than 128 ranks and no symmetry that would help. Use another graph, or set "
          "trainer_options::check_stability to false and watch consensus_distance()");
    std::string remedies;
    if constexpr (requires { reducer.remedies(how); })
      for (const std::string& remedy : reducer.remedies(how)) remedies += "\n  " + remedy;
    throw error(text("trainer: with momentum ", how.momentum,
                     how.nesterov ? " (Nesterov)" : " (heavy ball)",
                     " on this graph the ranks' disagreement would be multiplied by ", radius,
                     " a round, whatever the data. These would keep them together:", remedies));
  }
}

/// Of the trained numbers of a run; statistics are each rank's own until they are averaged.
template <class Run>
double consensus_distance(Run& run) {
  return run.together([&] {
    const auto trained = static_cast<std::size_t>(run.statistics().data - run.weights().data);
    return consensus_distance(run.link(), run.model().where(), run.weights().subspan(0, trained),
                              run.compute());
  });
}

}  // namespace cordee::inline CORDEE_ABI
