// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Once a step: the ranks agree on the ranges that their quantised layers saw, and the ranges move.
// One message for all layers, and one of histograms where a percentile is wanted; nothing for
// precisions that do not quantise. Once a run: running statistics that training freezes become
// their mean over ranks, as evaluation sees them.
#pragma once

#include <span>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/nn/quantisation.hpp>

namespace cordee::inline CORDEE_ABI {

/// Before the first step: how ranges are learned makes sense.
template <class M>
void check_ranges(const M& model) {
  if constexpr (requires { model.quantisation.check(); }) model.quantisation.check();
}

/// Collective: the minima (low, -high) of all layers over all ranks. A rank that does not count
/// says that it saw nothing.
template <class Link>
std::vector<double> seen_by_all(quantisation_settings& q, const Link& link, bool counts) {
  std::vector<double> minima = q.watch.take(counts);
  agree(link, {minima.data(), minima.size()}, minimum{});
  if (q.percentile >= 100) return minima;
  std::vector<double> spread = q.watch.take_counts(counts);
  agree(link, {spread.data(), spread.size()}, sum{});
  q.cut({minima.data(), minima.size()}, {spread.data(), spread.size()});
  return minima;
}

/// Collective. Between two steps, of which the second may be the first that freezes them.
template <class M, class Link, class Span, class Stream>
void settle_norms(const M& model, const Link& link, Span statistics, double before, double now,
                  Stream s) {
  if constexpr (requires { model.freeze_norms_at; })
    if (before < model.freeze_norms_at && now >= model.freeze_norms_at)
      mean(link, model.where(), statistics, s);
}

/// Collective. What ranks saw in a step that does not count is forgotten. What a device saw is
/// fetched by stream `late`, which is behind the step's forward passes.
template <class M, class Link, class Plane, class Stream = cpu::stream>
void observe(M& model, const Link& link, Plane weights, const moment& now, bool counts,
             Stream late = {}, Stream s = {}) {
  if constexpr (requires { model.quantisation.records; }) {
    auto& q = model.quantisation;
    q.fetch(model.where(), late);
    q.learn(model.where(), weights.data, seen_by_all(q, link, counts), now.epoch, s);
  } else if constexpr (requires { model.quantisation.watch; }) {
    auto& q = model.quantisation;
    q.learn(weights.data, seen_by_all(q, link, counts), now.epoch);
  }
}

}  // namespace cordee::inline CORDEE_ABI
