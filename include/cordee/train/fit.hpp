// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loop over updates: fetch, step, agree on what to report, tell the listeners.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <optional>

#include <cordee/comm/agree.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/evaluate.hpp>
#include <cordee/train/record.hpp>
#include <cordee/train/stable.hpp>
#include <cordee/train/upload.hpp>

namespace cordee::inline CORDEE_ABI {

/// What `fit` asks of a loader: this rank's micro-batches of one update after another, and where
/// that is in epochs. `steps(e)` updates make e epochs; `step()` is the next one.
template <class F>
concept Feed = requires(F f, std::int64_t step, double epochs) {
  { f.image() } -> std::convertible_to<extent>;
  { f.classes() } -> std::convertible_to<int>;
  { f.samples() } -> std::convertible_to<std::int64_t>;
  { f.global_batch() } -> std::convertible_to<std::int64_t>;
  { f.ranks() } -> std::convertible_to<int>;
  { f.accumulate() } -> std::convertible_to<int>;
  { f.norm() } -> std::convertible_to<normalisation>;
  { f.steps(epochs) } -> std::convertible_to<std::int64_t>;
  { f.epoch(step) } -> std::convertible_to<double>;
  { f.step() } -> std::convertible_to<std::int64_t>;
  { f.next() };
};

namespace detail {

inline void to_numbers(const score& s, double* out) {
  out[0] = s.loss;
  out[1] = static_cast<double>(s.top1);
  out[2] = static_cast<double>(s.top5);
  out[3] = static_cast<double>(s.count);
}
inline score from_numbers(const double* in) {
  return {in[0], std::llround(in[1]), std::llround(in[2]), std::llround(in[3])};
}

/// What all ranks did in one step: sums of scores, the norm of the gradient, skips.
template <class Run, class Outcome>
step_record agreed(Run& run, const Outcome& own, std::int64_t skipped, double seconds) {
  constexpr bool exact = Run::gradient_is_exact;
  std::array<double, 6> sums{};
  to_numbers(own.train, sums.data());
  sums[4] = own.grad_square;
  sums[5] = own.applied && own.zeroed == 0 ? 0 : 1;
  agree(run.link(), sums, sum{});
  const int ranks = run.link().size();
  step_record r{own.now, from_numbers(sums.data())};
  r.grad_norm = std::sqrt(exact ? own.grad_square : sums[4] / ranks);
  r.grad_norm_local = !exact;
  r.skipped = skipped + (exact ? (own.applied ? 0 : 1) : std::llround(sums[5]));
  r.seconds = seconds;
  return r;
}

template <class Run, class L>
void examine(Run&, const normalisation&, L&, std::optional<score>&) {}
template <class Run, class S>
void examine(Run& run, const normalisation& norm, held_out<S>& h, std::optional<score>& found) {
  found = evaluate(run, h.dataset, norm, h.batch);
}

// Cold: a step takes milliseconds, what stands between two of them is compiled for size.
template <class Run, class F, class... Listeners>
[[gnu::cold]] run_summary fit(Run& run, F& feed, double epochs, Listeners&... listeners) {
  using clock = detail::steady_clock;
  constexpr bool adaptive = AdaptiveSchedule<std::remove_cvref_t<decltype(run.schedule())>>;
  expect_fits<typename Run::model_type>(feed);
  expects(feed.ranks() == run.link().size(),
          "fit: the loader was made for another number of ranks than the reducer's link has");

  [[maybe_unused]] const bool speaks = run.link().rank() == 0;
  const std::int64_t first = feed.step(), total = feed.steps(epochs);
  [[maybe_unused]] const run_plan plan{
      total,
      first,
      epochs,
      feed.samples(),
      feed.global_batch(),
      feed.global_batch() / (feed.ranks() * feed.accumulate()),
      feed.ranks(),
      feed.accumulate(),
      speaks && sizeof...(listeners) > 0 ? disagreement_radius(run.rule(), run.reducer()) : 0};
  if (speaks) (tell_begin(listeners, plan), ...);

  const auto start = clock::now();
  const auto since = [&] { return std::chrono::duration<double>(clock::now() - start).count(); };
  run_summary summary;
  score in_epoch;
  upload<typename Run::device> there(run.model().where());
  std::span<const batch<typename Run::device>> coming;
  const auto fetch = [&](std::int64_t k) {
    if (k < total) coming = there.to(feed.next(), run.compute());
  };
  fetch(first);
  for (std::int64_t k = first; k < total; ++k) {
    const auto out = run.step(coming, feed.epoch(k), [&] { fetch(k + 1); });
    step_record record{out.now};
    if constexpr (sizeof...(listeners) > 0 || adaptive)
      record = agreed(run, out, summary.skipped, since());
    summary.skipped = record.skipped;
    in_epoch += record.train;
    if constexpr (adaptive) run.schedule().observe(out.now.epoch, record.train.mean_loss());
    if (speaks) (tell_step(listeners, record), ...);

    const bool over = k + 1 == total || std::floor(feed.epoch(k + 1)) > std::floor(feed.epoch(k));
    if (!over) continue;
    epoch_record e{record, in_epoch, std::nullopt};
    (examine(run, feed.norm(), listeners, e.held_out), ...);
    if (speaks) (tell_epoch(listeners, e), ...);
    summary.last = e;
    in_epoch = {};
  }
  summary.steps = total - first;
  summary.seconds = since();
  std::array<double, 1> here{};  // everybody agrees before anybody leaves
  agree(run.link(), here, sum{});
  if (speaks) (tell_end(listeners, summary), ...);
  return summary;
}

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
