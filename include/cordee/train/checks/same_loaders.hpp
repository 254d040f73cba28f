// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A check when fit begins that the loaders of all ranks have the same data, seed, batch and
// position, and the schedules the same values. Ranks with another seed or batch would train on
// other samples than their part.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/checks/settings.hpp>
#include <cordee/train/input/feed.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

[[gnu::cold, gnu::noinline]] void add_normalization(settings& all,
                                                    const std::same_as<normalization> auto& n) {
  for (std::size_t c = 0; c < n.mean.size(); ++c) {
    all.add(concat("the mean of channel ", c), n.mean[c]);
    all.add(concat("the scale of channel ", c), n.scale[c]);
  }
}

/// Requires that feed.step() is the first update of the loop.
template <class F, class S>
[[gnu::cold]] settings loader_settings(F& feed, const S& schedule, double epochs) {
  const auto number = [](std::convertible_to<double> auto x) { return static_cast<double>(x); };
  const std::int64_t first = feed.step(), last = feed.steps(epochs) - 1;
  const core::exact_numbers all_digits;
  settings all;
  all.add("the number of samples", number(feed.samples()));
  if constexpr (ImageFeed<F>) all.add("the number of classes", number(feed.classes()));
  all.add("the global batch", number(feed.global_batch()));
  all.add("the number of micro-batches", number(feed.accumulate()));
  if constexpr (requires { number(feed.seed()); })
    all.add("the seed of the loader", number(feed.seed()));
  if constexpr (requires { std::string(feed.describe()); })
    all.add("the loader", std::string(feed.describe()));
  if constexpr (requires { std::string(feed.describe_augmentation()); })
    all.add("the augmentation", std::string(feed.describe_augmentation()));
  if constexpr (requires { std::string(feed.dataset().resampling().describe()); })
    all.add("the resampling", std::string(feed.dataset().resampling().describe()));
  if constexpr (ImageFeed<F>) add_normalization(all, feed.normalization());
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

/// What decides when a callback exchanges or ends the run; of one that writes files alone nothing.
template <class C>
[[gnu::cold]] void add_callback(settings& all, const C& callback) {
  const core::exact_numbers all_digits;
  if constexpr (requires { callback.rank_settings(); })
    all.add("a callback of fit", std::string(callback.rank_settings()));
}

/// Throws on every rank, "fit: ...", with the first setting that differs. Collective.
template <class Communicator, class F, class S, class... Callbacks>
[[gnu::cold]] void expect_same_loaders(const Communicator& comm, F& feed, const S& schedule,
                                       double epochs, const Callbacks&... callbacks) {
  settings own = loader_settings(feed, schedule, epochs);
  (add_callback(own, callbacks), ...);
  expect_same_settings(comm, own, "fit");
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
