// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// What `fit` requires of a source of batches. `next()` returns this rank's micro-batches of one
/// update after another; `steps(e)` updates make e epochs; `step()` is the index of the next
/// update, `epoch(k)` the position of update k in epochs.
template <class F>
concept Feed = requires(F f, std::int64_t step, double epochs) {
  { f.samples() } -> std::convertible_to<std::int64_t>;
  { f.global_batch() } -> std::convertible_to<std::int64_t>;
  { f.ranks() } -> std::convertible_to<int>;
  { f.accumulate() } -> std::convertible_to<int>;
  { f.steps(epochs) } -> std::convertible_to<std::int64_t>;
  { f.epoch(step) } -> std::convertible_to<double>;
  { f.step() } -> std::convertible_to<std::int64_t>;
  { f.next() };
};

/// A source whose updates have as many samples as they are found to have.
template <class F>
concept CountsSamples = requires { requires F::counts_samples; };

/// A loader of images in classes.
template <class F>
concept ImageFeed = Feed<F> && requires(F f) {
  { f.image() } -> std::convertible_to<extent>;
  { f.classes() } -> std::convertible_to<int>;
  { f.normalization() } -> std::convertible_to<normalization>;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
