// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What differs between a run and a second one that continues it from planes and run_state.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/train/step/run_state.hpp>

#include "tests/support/bits.hpp"

namespace support {

using namespace cordee;

/// What differs between runs that do not continue alike: all planes but the gradients after a step,
/// and what the step returned.
template <class Real>
struct trace {
  std::vector<std::vector<Real>> planes;
  std::vector<double> outcome;
};

template <class Run>
auto all_planes(Run& run) {
  using O = std::remove_cvref_t<decltype(run.optimizer())>;
  using R = std::remove_cvref_t<decltype(run.reducer())>;
  std::vector<span_on<typename Run::Real, cpu>> planes{run.weights()};
  for (int k = 0; k < O::slots; ++k) planes.push_back(run.slot(k));
  for (int k = 0; k < R::slots; ++k) planes.push_back(run.reducer_slot(k));
  return planes;
}

template <class Run>
auto trace_of(Run& run, const detail::train::step_outcome& out) {
  trace<typename Run::Real> t;
  for (const auto& plane : all_planes(run)) t.planes.push_back(copy(plane));
  t.outcome = {static_cast<double>(out.info.step),
               static_cast<double>(out.info.applied),
               static_cast<double>(out.info.round),
               out.info.learning_rate,
               out.info.previous_learning_rate,
               out.train.loss,
               static_cast<double>(out.train.count),
               out.squared_global_norm,
               out.applied ? 1.0 : 0.0,
               static_cast<double>(out.zeroed_buckets),
               out.loss_scale};
  return t;
}

/// The first step after which two runs differ, as text; empty if none.
template <class Real>
std::string difference(const std::vector<trace<Real>>& a, const std::vector<trace<Real>>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    for (std::size_t p = 0; p < a[k].planes.size(); ++p)
      if (!same_bits(a[k].planes[p], b[k].planes[p])) return concat("step ", k, ", plane ", p);
    for (std::size_t i = 0; i < a[k].outcome.size(); ++i)
      if (!same_bits(std::vector{a[k].outcome[i]}, std::vector{b[k].outcome[i]}))
        return concat("step ", k, ", outcome ", i, ": ", a[k].outcome[i], ", ", b[k].outcome[i]);
  }
  return {};
}

/// Trains `before` + `after` steps; a second trainer, made by make(), with other weights, gets
/// planes and state of the first as they were in between. `train(run, k)` is step k.
template <class Make, class Train>
std::string resumed_difference(const Make& make, const Train& train, int before, int after) {
  using Run = std::remove_cvref_t<decltype(*make())>;
  using Real = typename Run::Real;
  std::vector<std::vector<Real>> planes;
  detail::train::run_state state;
  const auto go_on = [&](Run& run) {
    std::vector<trace<Real>> traces;
    for (int k = before; k < before + after; ++k) traces.push_back(trace_of(run, train(run, k)));
    return traces;
  };
  const auto uninterrupted = [&] {  // has left an asynchronous server when the second one joins
    const auto run = make();
    for (int k = 0; k < before; ++k) train(*run, k);
    for (const auto& plane : all_planes(*run)) planes.push_back(copy(plane));
    if (run->comm().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    state = run->state();  // while another rank might already push to an asynchronous server
    return go_on(*run);
  }();
  const auto run = make();
  for (const segment& s : run->segments())
    for (std::size_t i = 0; i < s.size; ++i) run->weights()[s.offset + i] += Real{1};
  run->adopt_weights();
  const auto targets = all_planes(*run);
  for (std::size_t p = 0; p < targets.size(); ++p)
    std::copy(planes[p].begin(), planes[p].end(), targets[p].begin());
  run->restore(state);
  const detail::train::run_state restored = run->state();
  std::array<double, 1> barrier{};  // an asynchronous server is read before any rank pushes
  allreduce_host(run->comm(), barrier, reduce_op::sum);
  if (!(restored.progress == state.progress && restored.scale == state.scale &&
        restored.reducer == state.reducer))
    return "the state itself";
  return difference(uninterrupted, go_on(*run));
}

}  // namespace support
