// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the ranks' weights will stay together: computed before the first step from the topology
// and the momentum, measured during the run (docs/mathematics_ranks.md, 6.1 to 6.3).
#pragma once

#include <string>
#include <vector>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The factor by which one round multiplies the ranks' disagreement, for a flat loss; 0 where
/// optimizer and reducer leave none.
template <class O, class R>
double disagreement_radius(const O& optimizer, const R& reducer) {
  if constexpr (optim::HasMomentumForm<O> && comm::HasSpectralRadius<R>)
    return reducer.spectral_radius(optimizer.momentum_form());
  return 0;
}

/// Between it and 1 the disagreement shrinks so slowly that the loss's curvature, which moves the
/// radius by about learning rate x curvature, decides whether it shrinks at all.
inline constexpr double warning_radius = 0.999;

inline std::string describe_radius(double radius) {
  return concat("the ranks' disagreement is multiplied by ", radius, " per round",
                radius >= 1               ? ": it grows"
                : radius > warning_radius ? ": too close to 1 for a learning rate that is not tiny"
                                          : "");
}

/// Throws error unless the disagreement shrinks, with remedies if the reducer computes any.
template <class O, class R>
void expect_stable(const O& optimizer, const R& reducer) {
  if constexpr (optim::HasMomentumForm<O> && comm::HasSpectralRadius<R>) {
    const momentum_form form = optimizer.momentum_form();
    const double radius = disagreement_radius(optimizer, reducer);
    if (radius < detail::core::largest_stable_radius) return;
    if (core::isnan(radius))
      throw error(
          "trainer: the spectral radius of momentum on this topology cannot be computed: it is "
          "random, "
          "or has more than 128 ranks and no symmetry. Use another topology, or set "
          "trainer_options::check_stability to false and watch consensus_distance()");
    std::string remedies;
    if constexpr (requires { reducer.remedies(form); })
      for (const std::string& remedy : reducer.remedies(form)) remedies += "\n  " + remedy;
    throw error(concat("trainer: with momentum ", form.momentum,
                       form.nesterov       ? " (Nesterov)"
                       : form.quasi_global ? " (quasi-global)"
                                           : " (heavy ball)",
                       " on this topology the ranks' disagreement would be multiplied by ", radius,
                       " per round, whatever the data. Stable alternatives:", remedies));
  }
}

/// Root mean square over ranks of the distance between their trainable weights and the mean;
/// running statistics are not counted. Collective.
template <class Run>
double consensus_distance(Run& run) {
  return run.abort_peers_on_throw([&] {
    const auto trainable_size =
        static_cast<std::size_t>(run.statistics().data - run.weights().data);
    return comm::consensus_distance(run.comm(), run.model().get_device(),
                                    run.weights().subspan(0, trainable_size), run.compute());
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
