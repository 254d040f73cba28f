// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where the loader of a resumed run begins: at the sample that would have been next.
//
// A position is an update of a loader, hence a number of samples of an epoch's permutation. Another
// number of ranks changes nothing, for updates are counted in global batches. With another global
// batch the run continues if an update of the new loader begins at the very sample.
//
// Templates throughout, so that programs which resume no run do not compile this code.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/train/step/run_state.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The loader_options::last_batch of a loader, by the epochs that an update makes. Equal to
/// "any" if the batch divides the data set, where there is no difference; empty for a loader that
/// counts in another way.
template <class State>
[[nodiscard, gnu::cold]] std::string_view last_batch_of(const State& s) {
  const std::int64_t whole = s.samples / s.global_batch;
  if (s.samples % s.global_batch == 0)
    return s.epochs_per_update == 1 / static_cast<double>(whole) ? "any" : "";
  if (s.epochs_per_update == static_cast<double>(s.global_batch) / static_cast<double>(s.samples))
    return "last_batch::carry";
  if (s.epochs_per_update == 1 / static_cast<double>(whole + 1)) return "last_batch::pad";
  return whole > 0 && s.epochs_per_update == 1 / static_cast<double>(whole) ? "last_batch::drop"
                                                                            : "";
}

/// Updates of an epoch of a loader that pads or drops.
template <class State>
[[nodiscard, gnu::cold]] std::int64_t updates_per_epoch(const State& s) {
  const std::int64_t whole = s.samples / s.global_batch;
  return last_batch_of(s) == "last_batch::pad" ? whole + 1 : whole;
}

/// The update of the loader `own` that begins where `saved` stopped, of the same last_batch; -1 if
/// none does.
template <class State>
[[nodiscard, gnu::cold]] std::int64_t update_at(const State& saved, const State& own) {
  const auto has_carry = [](const State& s) {
    return last_batch_of(s) == "any" || last_batch_of(s) == "last_batch::carry";
  };
  std::int64_t epoch = 0, sample = saved.update * saved.global_batch;
  if (has_carry(saved)) {
    epoch = sample / saved.samples;
    sample %= saved.samples;
  } else {
    const std::int64_t n = updates_per_epoch(saved);
    epoch = saved.update / n;
    sample = saved.update % n * saved.global_batch;
  }
  if (has_carry(own)) {
    sample += epoch * saved.samples;
    epoch = 0;
  }
  if (sample % own.global_batch != 0) return -1;
  const std::int64_t update = sample / own.global_batch;
  if (has_carry(own)) return update;
  const std::int64_t n = updates_per_epoch(own);
  return update < n ? epoch * n + update : -1;  // else it would drop the next sample
}

/// The update at which the loader `own` continues a run whose loader is in `saved`. Writes to
/// `change` what else than ranks has changed. Throws error for a loader of other samples, and if no
/// update begins at the position.
template <class State>
[[nodiscard, gnu::cold]] std::int64_t resumed_update(const State& saved, const State& own,
                                                     std::string& change) {
  if (own.seed != saved.seed)
    throw error(concat("fit: the run to be continued had a loader with seed ", saved.seed,
                       ", this loader has ", own.seed, ", and with it other samples",
                       ": continue with the seed of before"));
  if (own.samples != saved.samples)
    throw error(concat("fit: the run to be continued had ", saved.samples,
                       " samples, this loader has ", own.samples,
                       ": continue with the data set of before"));
  const std::string_view before = last_batch_of(saved), now = last_batch_of(own);
  const bool same_batch = own.global_batch == saved.global_batch;
  if (same_batch ? own.epochs_per_update != saved.epochs_per_update
                 : before != now && before != "any" && now != "any")
    throw error(concat("fit: the run to be continued had a loader with ",
                       before.empty() ? "another end of an epoch" : before, ", this loader has ",
                       now.empty() ? "another one" : now, ", and with it ", own.epochs_per_update,
                       " epochs an update, not ", saved.epochs_per_update,
                       ": continue with the last_batch of before"));
  if (same_batch) return saved.update;
  const std::int64_t update = before.empty() || now.empty() ? -1 : update_at(saved, own);
  if (update < 0)
    throw error(concat("fit: the run to be continued is behind ", saved.update,
                       " updates of a global batch of ", saved.global_batch, ", and no update of ",
                       own.global_batch, " begins there: continue with .global_batch = ",
                       saved.global_batch, ", or from a checkpoint at the end of an epoch"));
  change = concat("fit: global batch ", saved.global_batch, " -> ", own.global_batch,
                  ": the run goes on behind ", saved.update, " updates of before, at update ",
                  update, " of now, without a sample left out or repeated\n");
  return update;
}

/// Throws error unless the loader `own`, whose next update begins at `epochs`, has made the batches
/// of before up to there: its batch_schedule may have another future, but no other past.
template <class State>
[[gnu::cold]] void expect_same_position(const State& saved, const State& own, double epochs) {
  const auto plain = static_cast<double>(saved.update) * saved.epochs_per_update;
  const bool same_batch = own.global_batch == saved.global_batch;
  const auto differs = [](double a, double b) { return core::abs(a - b) > 1e-9 * core::abs(a); };
  if (same_batch ? differs(saved.epochs, epochs)
                 : differs(saved.epochs, plain) ||
                       differs(epochs, static_cast<double>(own.update) * own.epochs_per_update))
    throw error(concat("fit: the run to be continued was at epoch ", saved.epochs, " after ",
                       saved.update, " updates, this loader would go on at epoch ", epochs,
                       ": continue with the global batch and the batch_schedule of before"));
}

/// What fit_state::resume does.
template <class State>
[[gnu::cold]] void continue_fit(const State& saved, State& own, bool reports) {
  std::string change;
  own.update = resumed_update(saved, own, change);
  own.skipped = saved.skipped;
  own.in_epoch = saved.in_epoch;
  own.noise = saved.noise;
  if (reports) std::fputs(change.c_str(), stderr);
}

/// A state at which the next fit continues.
template <class State>
[[nodiscard, gnu::cold]] State to_resume(State s) {
  s.data.source = "the run to be continued";
  s.resume = &continue_fit<fit_position>;
  s.expect_same = &expect_same_position<fit_position>;
  return s;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
