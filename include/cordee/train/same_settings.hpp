// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Settings that must be equal on all ranks, as lines of text, and what differs. Ranks with another
// learning rate would end with other weights after the same exact mean; ranks with another seed or
// batch would train on other samples than their part.
//
// The comparison itself is a fingerprint of 64 bits; texts are exchanged only where it differs.
// Functions are templates even where one type is meant (`auto`), so that a program of a single rank
// does not compile them.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// "name\tvalue\n" for each setting, in one order on all ranks.
class settings {
 public:
  [[gnu::cold, gnu::noinline]] void add(std::string_view name, std::string_view value) {
    lines_.append(name).append("\t");
    for (const char c : value) lines_ += c == '\n' || c == '\t' || c == '\0' ? ' ' : c;
    lines_ += '\n';
  }
  /// With as many digits as give the number back.
  [[gnu::cold, gnu::noinline]] void add(std::string_view name, double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.15g", value);
    if (std::strtod(digits, nullptr) != value) std::snprintf(digits, sizeof digits, "%.17g", value);
    add(name, std::string_view(digits));
  }
  [[nodiscard]] const std::string& lines() const { return lines_; }

  /// FNV-1a, 64 bits.
  [[nodiscard, gnu::cold, gnu::noinline]] std::uint64_t fingerprint() const {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : lines_) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
  }

 private:
  std::string lines_;
};

/// "the seed of the loader: rank 0 has 1, rank 2 has 2: ..." of the first line that differs.
[[nodiscard, gnu::cold]] std::string first_difference(std::string_view first,
                                                      std::string_view other,
                                                      std::integral auto other_rank) {
  const auto cut_line = [](std::string_view& rest) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    return line;
  };
  std::string_view a, b;
  do {
    a = cut_line(first);
    b = cut_line(other);
  } while (a == b && !(first.empty() && other.empty()));
  constexpr std::size_t longest = 200;  // of a value in the message
  const auto value = [](std::string_view line) {
    return line.empty() ? std::string_view("none") : line.substr(line.find('\t') + 1, longest);
  };
  const std::string_view named = a.empty() ? b : a;
  return concat(named.substr(0, named.find('\t')), " differs: rank 0 has ", value(a), ", rank ",
                other_rank, " has ", value(b), ": give every rank the same");
}

/// 64 bits as two numbers of 32, which a double holds.
constexpr std::array<double, 2> halves_of(std::uint64_t hash) {
  return {static_cast<double>(hash >> 32), static_cast<double>(hash & 0xffffffffu)};
}

/// Every rank's `values`, (ranks, n). Collective.
template <class Communicator>
std::vector<double> gather(const Communicator& comm, std::span<const double> values) {
  if (comm.size() == 1) return std::vector<double>(values.data(), values.data() + values.size());
  return comm::gather_host(comm, values);
}

/// The first row of `rows`, (ranks, n), that differs from row 0; 0 if none does.
std::size_t first_other_row(std::span<const double> rows, std::same_as<std::size_t> auto n) {
  for (std::size_t at = n; at < rows.size(); at += n)
    if (!std::equal(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(n),
                    rows.begin() + static_cast<std::ptrdiff_t>(at)))
      return at / n;
  return 0;
}

[[gnu::cold]] std::vector<double> letters_of(std::string_view text,
                                             std::same_as<std::size_t> auto n) {
  std::vector<double> letters(n);
  for (std::size_t i = 0; i < std::min(n, text.size()); ++i)
    letters[i] = static_cast<unsigned char>(text[i]);
  return letters;
}
[[gnu::cold]] std::string text_of(const std::same_as<std::span<const double>> auto& letters) {
  std::string text;
  for (std::size_t i = 0; i < letters.size() && letters[i] > 0; ++i)
    text += static_cast<char>(static_cast<unsigned char>(letters[i]));
  return text;
}

/// The texts of rank 0 and rank `other`, of which `longest` letters are exchanged. Collective.
template <class Communicator>
[[gnu::cold]] std::array<std::string, 2> gather_texts(const Communicator& comm,
                                                      const std::string& own, std::size_t other,
                                                      std::size_t longest) {
  const std::vector<double> letters = gather(comm, letters_of(own, longest));  // (ranks, longest)
  const std::span<const double> all(letters.data(), letters.size());
  return {text_of(all.first(longest)), text_of(all.subspan(other * longest, longest))};
}

/// What differs between the settings of rank 0 and of rank `other`. Collective.
template <class Communicator>
[[gnu::cold]] std::string describe_other_setting(const Communicator& comm, const settings& own,
                                                 std::size_t other) {
  const double length = static_cast<double>(own.lines().size());
  std::size_t longest = 0;
  for (const double n : gather(comm, std::span<const double>(&length, 1)))
    longest = std::max(longest, static_cast<std::size_t>(n));
  const auto [first, second] = gather_texts(comm, own.lines(), other, longest);
  return first_difference(first, second, other);
}

/// Throws on every rank, "fit: ...", with the first setting that differs. Collective.
template <class Communicator>
[[gnu::cold]] void expect_same_settings(const Communicator& comm, const settings& own,
                                        std::string_view where) {
  const std::array<double, 2> halves = halves_of(own.fingerprint());
  if (const std::size_t other = first_other_row(gather(comm, halves), std::size_t{2}); other != 0)
    throw error(concat(where, ": ", describe_other_setting(comm, own, other)));
}

// ---- the settings of a trainer ----

/// A number for all edges of a topology, of at most 64 rounds.
template <class T>
[[gnu::cold]] std::string describe_edges(const T& topology, int ranks) {
  settings edges;
  for (int round = 0; round < std::min(64, std::max(1, topology.period(ranks))); ++round)
    for (int rank = 0; rank < ranks; ++rank)
      for (const auto& e : topology.in_edges(rank, ranks, round))
        edges.add(concat(e.peer), e.weight);
  return concat("edges ", edges.fingerprint());
}

/// A reducer's description, or the edges of its topology, whose description takes long where ranks
/// are many.
template <class R>
[[gnu::cold]] std::string describe_reducer(const R& reducer) {
  if constexpr (requires { reducer.topology.in_edges(0, 1, 0); })
    return describe_edges(reducer.topology, reducer.comm.size());
  else
    return core::describe_policy(reducer);
}

/// Policies are compared by describe(), schedules also by their values.
[[gnu::cold, gnu::noinline]] settings policy_settings(const std::string& optimizer,
                                                      const std::string& schedule,
                                                      double first_learning_rate,
                                                      const std::string& reducer,
                                                      const std::same_as<trainer_options> auto& o) {
  settings all;
  all.add("the optimizer", optimizer);
  all.add("the schedule", schedule);
  all.add("the learning rate at epoch 0", first_learning_rate);
  all.add("the reducer", reducer);
  // Without bucket_bytes, which the buckets show, and what changes no number: `overlap`,
  // `capture_graphs` and `check_stability`.
  all.add("trainer_options::seed", concat(o.seed));
  all.add("trainer_options::check_finite", o.check_finite);
  all.add("trainer_options::max_nonfinite_steps", o.max_nonfinite_steps);
  all.add("trainer_options::batch_norm_over", o.batch_norm_over);
  all.add("trainer_options::measure_gradient_noise", o.measure_gradient_noise);
  if (!o.freeze.empty()) all.add("trainer_options::freeze", o.freeze.describe());
  all.add("loss_scaling::initial", o.loss_scaling.initial);
  all.add("loss_scaling::growth", o.loss_scaling.growth);
  all.add("loss_scaling::backoff", o.loss_scaling.backoff);
  all.add("loss_scaling::interval", o.loss_scaling.interval);
  return all;
}
template <class M, class O, class S, class R>
[[gnu::cold]] settings trainer_settings(const M& model, const O& optimizer, const S& schedule,
                                        const R& reducer, const trainer_options& options) {
  settings all = policy_settings(core::describe_policy(optimizer), core::describe_policy(schedule),
                                 detail::schedule::learning_rate_of(schedule, 0.0),
                                 describe_reducer(reducer), options);
  if constexpr (requires { model.loss; }) all.add("the loss", core::describe_policy(model.loss));
  if constexpr (requires { model.dropout_rate; }) all.add("dropout_rate", model.dropout_rate);
  if constexpr (requires { model.batch_norm_moving_average; })
    all.add("batch_norm_moving_average", model.batch_norm_moving_average);
  return all;
}

// ---- the settings of a training loop ----

[[gnu::cold, gnu::noinline]] void add_normalization(settings& all,
                                                    const std::same_as<normalization> auto& n) {
  for (std::size_t c = 0; c < n.mean.size(); ++c) {
    all.add(concat("the mean of channel ", c), n.mean[c]);
    all.add(concat("the scale of channel ", c), n.scale[c]);
  }
}

/// Requires that feed.step() is the first update of the loop.
template <class F, class S>
[[gnu::cold]] settings feed_settings(F& feed, const S& schedule, double epochs) {
  const auto number = [](std::convertible_to<double> auto x) { return static_cast<double>(x); };
  const std::int64_t first = feed.step(), last = feed.steps(epochs) - 1;
  settings all;
  all.add("the number of samples", number(feed.samples()));
  all.add("the number of classes", number(feed.classes()));
  all.add("the global batch", number(feed.global_batch()));
  all.add("the number of micro-batches", number(feed.accumulate()));
  if constexpr (requires { number(feed.seed()); })
    all.add("the seed of the loader", number(feed.seed()));
  if constexpr (requires { std::string(feed.describe()); })
    all.add("the loader", std::string(feed.describe()));
  add_normalization(all, feed.normalization());
  all.add("the number of epochs", epochs);
  all.add("the number of the first update", number(first));
  constexpr int samples = 9;  // of updates that will be made, for a schedule may end with the run
  for (int k = 0; k < samples && first <= last; ++k) {
    const double update = number(last - first) * k / (samples - 1);
    const double epoch = feed.epoch(first + static_cast<std::int64_t>(update));
    all.add(concat("the learning rate at epoch ", epoch), number(schedule(epoch)));
  }
  return all;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
