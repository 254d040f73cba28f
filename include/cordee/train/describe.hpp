// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A dry run in words: what `fit` would do, and every default that applies. Trains nothing.
#pragma once

#include <algorithm>
#include <string>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/simd.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/fit.hpp>
#include <cordee/train/step.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

template <class T>
std::string words_of(const T& t) {
  if constexpr (requires { t.describe(); })
    return t.describe();
  else
    return "a noun of your own";
}

constexpr std::string_view name_of(agreement a) {
  return a == agreement::exact ? "exact" : a == agreement::mixing ? "mixing" : "loose";
}

/// What kind of number the engine of a network in bytes wants backward, where it is one of its own.
template <class M>
constexpr std::string_view byte_gradients() {
  if constexpr (requires { typename M::engine::byte_gradient; })
    return "backward in bf16, summed in fp32; other ";
  else
    return "";
}

/// Whether the engine writes weight gradients in narrow numbers first.
template <class M>
constexpr bool rounds_weight_gradients() {
  if constexpr (requires { M::engine::rounds_weight_gradients; })
    return M::engine::rounds_weight_gradients;
  else
    return false;
}

}  // namespace detail

/// What the vector width of this build means for speed.
inline std::string describe_isa() {
  return register_bytes > 16 ? text(isa, " (", register_bytes, "-byte vectors)")
                             : text(isa, " (", register_bytes,
                                    "-byte vectors; on a processor with AVX2 or AVX-512, compile "
                                    "with -march=native: "
                                    "convolutions run three to six times as fast)");
}

/// Lines of "what: value". Ranks need not call it together.
template <class Run, Feed F>
std::string describe(Run& run, F& feed, double epochs) {
  using M = typename Run::model_type;
  using Real = typename Run::Real;
  const auto rate = [&](double epoch) { return run.schedule()(epoch); };
  const int ranks = feed.ranks(), micro = feed.accumulate();
  const std::int64_t steps = feed.steps(epochs);

  std::size_t numbers = 0, largest = 0;
  for (const segment& s : run.segments())
    if (s.what != kind::statistic) numbers += s.size;
  for (const bucket& b : run.buckets()) largest = std::max(largest, b.size);
  std::size_t exchanged = 0;
  for (const bucket& b : run.buckets()) exchanged += b.size * sizeof(Real);

  std::string out;
  const auto say = [&out](std::string_view what, const std::string& value) {
    out += text(what, std::string(std::max<std::size_t>(what.size(), 14) - what.size() + 2, ' '),
                value, "\n");
  };
  say("network", text(grouped(numbers), " parameters in ", count_trainable(run.segments()),
                      " tensors, image ", to_text(M::input), ", ", M::classes, " classes"));
  say("precision", text(Run::precision::name, " on ", Run::device::name,
                        Run::device::host_memory ? ", " + describe_isa() : ""));
  if constexpr (Quantised<typename Run::precision>)
    say("types", text("operands of convolutions in ", Run::precision::name, ", summed in 32 bits; ",
                      detail::byte_gradients<M>(),
                      "gradients, batch norm, the classifier and all else in fp32"));
  else if constexpr (!std::same_as<typename Run::precision::storage, Real>)
    say("types", text("activations, their gradients and packed weights in ", Run::precision::name,
                      ", their sums in single precision; masters, gradients of "
                      "parameters, batch norm's statistics, loss, messages and the rule in ",
                      sizeof(Real) == 4 ? "fp32" : "fp64",
                      detail::rounds_weight_gradients<M>()
                          ? text("; weight gradients of convolutions are rounded to ",
                                 Run::precision::name, " on their way")
                          : ""));
  else
    say("types", text("activations, weights, gradients, statistics, loss and the rule in ",
                      Run::precision::name));
  if constexpr (Run::precision::scales_loss) {
    const loss_scaling& by = run.options().loss_scaling;
    say("loss",
        text("scaled by ", by.initial, " at first, times ", by.growth, " after ", by.interval,
             " finite steps in a row, times ", by.backoff, " when one is not"));
  }
  if constexpr (!Run::device::host_memory) say("launches", std::string(run.launches()));
  if constexpr (requires { M::engine::name; })
    say("convolutions", text("engine ", M::engine::name));
  say("batch", text(grouped(feed.global_batch()),
                    " samples an update = ", grouped(feed.global_batch() / (ranks * micro)),
                    " per rank x ", ranks, " ranks x ", micro, " accumulated micro-batches"));
  say("length", text(grouped(steps), " updates, ", epochs, " epochs of ", grouped(feed.samples()),
                     " samples"));
  say("optimizer", detail::words_of(run.rule()));
  say("schedule", detail::words_of(run.schedule()));
  std::string curve;
  for (const double part : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
    const double e = feed.epoch(static_cast<std::int64_t>(
        part * static_cast<double>(std::max<std::int64_t>(steps - 1, 0))));
    curve += text(curve.empty() ? "" : ", ", rate(e), " at epoch ", e);
  }
  say("rates", curve);
  say("reducer", text(detail::words_of(run.reducer()), "; the optimizer needs ",
                      detail::name_of(std::remove_cvref_t<decltype(run.rule())>::needs),
                      ", the reducer offers ",
                      detail::name_of(std::remove_cvref_t<decltype(run.reducer())>::offers)));
  if constexpr (MovesConsensus<std::remove_cvref_t<decltype(run.rule())>> &&
                Gossips<std::remove_cvref_t<decltype(run.reducer())>>)
    say("consensus", describe_radius(disagreement_radius(run.rule(), run.reducer())));
  say("exchange", text(grouped(exchanged), " bytes in ", run.buckets().size(),
                       " buckets, the largest of ", grouped(largest * sizeof(Real)), " bytes",
                       run.options().overlap ? ", while backward runs" : ", after backward"));
  say("memory", text(grouped(run.arena_bytes()),
                     " bytes a rank for weights, gradients and state; "
                     "activations come on top with the first batch"));
  say("not finite", run.looks() ? text("such a step is not taken; ", run.options().patience,
                                       " in a row end the run")
                                : std::string("not looked for (unguarded)"));
  return out;
}

}  // namespace cordee::inline CORDEE_ABI
