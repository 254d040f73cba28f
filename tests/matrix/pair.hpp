// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One optimizer and one reducer, tried on a small network for twenty steps.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/train/trainer.hpp>

#include "cell.hpp"
#include "erased.hpp"
#include "learner.hpp"

namespace matrix {

/// The mean loss of the mean model over all ranks' images, of which `own` are this rank's.
template <class Run>
double mean_model_loss(Run& run, const batch<cpu>& own) {
  return run.with_mean_model([&] {
    run.model().forward(run.packed_parameters(), run.weights(), own, phase::evaluate,
                        run.compute());
    std::array<double, 1> sums{run.model().read_metrics(run.compute()).loss};
    allreduce_host(run.comm(), sums, reduce_op::sum);
    return sums[0] / static_cast<double>(own.global_samples);
  });
}

/// Twenty steps in which each rank has its own images, and what must hold after them.
template <class O, class R>
cell attempt(const O& optimizer, const R& reducer, double learning_rate) {
  small_residual_network model(reducer.comm.rank(), reducer.comm.size());
  const std::array micro{model.images()};
  const auto schedule = [learning_rate](double) { return learning_rate; };
  std::optional<trainer<small_residual_network, O, decltype(schedule), R>> run;
  try {
    run.emplace(model, optimizer, schedule, reducer, trainer_options{.bucket_bytes = 2048});
  } catch (const error& e) {  // on every rank, before anything is sent
    return {cell::outcome::not_constructed, ' ', e.what()};
  } catch (const usage_error& e) {  // the same, without the place in the source at its end
    const std::string text = e.what();
    return {cell::outcome::not_constructed, ' ', text.substr(0, text.rfind(" ("))};
  }
  const double before = mean_model_loss(*run, micro[0]);
  for (int k = 0; k < 20; ++k)
    if (!run->step(micro, k).applied) return {cell::outcome::broken, ' ', "a step was skipped"};
  const double after = mean_model_loss(*run, micro[0]);
  if (!(std::isfinite(after) && after < before))
    return {cell::outcome::broken, ' ', concat("the loss went from ", before, " to ", after)};
  const double distance = run->consensus_distance();
  // With an exact mean the ranks' weights are equal; 1e-6 is for the rounding of their mean.
  if (!(O::needs == agreement::exact ? distance < 1e-6 : std::isfinite(distance)))
    return {cell::outcome::broken, ' ', concat("the consensus distance is ", distance)};
  return {cell::outcome::runs, ' ', {}};
}

/// The cell of an optimizer and the reducer that `make` makes: four ranks in threads, or one under
/// self_comm. `Named`: the optimizer in whose place it is.
template <class Named, class O, class R>
cell pair(const O& optimizer, double learning_rate, const maker<R>& make) {
  using cordee::detail::train::pairing;
  if constexpr (!cordee::detail::train::Compatible<O, R>) {
    return {cell::outcome::not_compiled, letter_of(pairing<O, R>::error), {}};
  } else if (!cordee::detail::train::Compatible<Named, R>) {
    return {cell::outcome::not_compiled, letter_of(pairing<Named, R>::error), {}};
  } else {
    cell result;
    const auto run = [&](typename R::communicator_type comm) {
      const cell own = attempt(optimizer, make(comm), learning_rate);
      if (comm.rank() == 0) result = own;
    };
    try {
      if constexpr (std::is_same_v<typename R::communicator_type, threads>)
        threads::launch(4, run);
      else
        run({});
      return result;
    } catch (const std::exception& e) {  // a trainer that is refused ends its world
      if (result.result == cell::outcome::not_constructed) return result;
      return {cell::outcome::broken, ' ', e.what()};
    }
  }
}

}  // namespace matrix
