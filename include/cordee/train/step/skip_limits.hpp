// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// When gradients that are not finite, or are zero, end a run, and the sentences that say so.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/train/step/run_state.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// " (step 7, epoch 1.5, ...): " of the last step.
[[gnu::cold, gnu::noinline]] inline void add_step(core::message& m, const step_outcome& last,
                                                  bool scaled) {
  const struct {
    const char* name;
    double value;
  } numbers[] = {{", epoch ", last.info.epoch},
                 {", learning rate ", last.info.learning_rate},
                 {", loss ", last.train.mean_loss()},
                 {", loss scale ", last.loss_scale}};
  m.add(" (step ");
  m.add(last.info.step);
  for (int k = 0; k < (scaled ? 4 : 3); ++k) {
    m.add(numbers[k].name);
    m.add(numbers[k].value);
  }
  m.add("): ");
}

/// Names of two segments.
struct segment_pair {
  std::string_view first, last;
};
/// The first and the last trainable segment, in forward order, whose gradient has no finite squared
/// norm; backward reached the last one first. Without any, the last segment twice.
segment_pair nonfinite_segments(std::span<const segment> trainables, const auto& squared_norms) {
  std::size_t first = 0, last = trainables.size() - 1;
  while (first < last && core::isfinite(squared_norms[first])) ++first;
  while (last > first && core::isfinite(squared_norms[last])) --last;
  return {trainables[first].name, trainables[last].name};
}

/// Throws error for the steps counted in p. In the last one the gradient was not finite from
/// `first_tensor` to `last_tensor`, in forward order.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_nonfinite(
    const progress& p, const trainer_options& options, std::string_view first_tensor,
    std::string_view last_tensor, const step_outcome& last, bool scaled) {
  const bool in_a_row = p.nonfinite_steps >= options.max_nonfinite_steps;
  const bool at_smallest = scaled && last.loss_scale <= options.loss_scaling.smallest;
  core::message m;
  m.add(in_a_row ? p.nonfinite_steps : p.nonfinite_in_window);
  m.add(in_a_row ? " steps in a row" : " of the last ");
  if (!in_a_row) {
    m.add((p.step - 1) % progress::window + 1);
    m.add(" steps");
  }
  if (last.overflows_statistics) {
    m.add(" had a NaN or an infinity, this time in what would be batch norm's running statistics");
  } else {
    m.add(" had a gradient with a NaN or an infinity, this time first in \"");
    m.add(first_tensor);
    if (last_tensor != first_tensor) {
      m.add("\", last in \"");
      m.add(last_tensor);
    }
    m.add(last_tensor == first_tensor ? "\"" : "\", which backward reached first");
  }
  add_step(m, last, scaled);
  m.add(at_smallest
            ? "the loss scale is at its smallest, so samples or activations overflow in 16 bits, "
              "not the scaled loss: check the input and its normalization, or train in bf16"
        : in_a_row ? "lower the learning rate, warm up for longer, or check the input"
                   : "check the input for samples that overflow, lower the learning rate, or raise "
                     "max_nonfinite_share");
  throw error(m.text());
}

/// A template, so that programs without a scaled loss do not compile it.
[[noreturn, gnu::cold, gnu::noinline]] void throw_zero_gradients(
    const std::same_as<progress> auto& p, const step_outcome& last) {
  core::message m;
  m.add(p.zero_gradients);
  m.add(" steps in a row had a gradient of zero");
  add_step(m, last, true);
  m.add(
      "it underflows in 16 bits, and weight decay alone changes the weights: raise "
      "loss_scaling::smallest, check the loss, or train in bf16");
  throw error(m.text());
}

/// Throws error if too many steps had no usable gradient. `Scaled`: the loss is scaled, so that a
/// gradient of zero is one that has underflowed.
template <bool Scaled, class Planes, class Stream>
[[gnu::cold]] void expect_usable_gradients(const progress& p, const trainer_options& options,
                                           const step_outcome& last, const Planes& planes,
                                           Stream s) {
  if (!last.finite() && (p.nonfinite_steps >= options.max_nonfinite_steps ||
                         p.nonfinite_in_window > options.max_nonfinite_share * progress::window)) {
    const segment_pair tensors =
        nonfinite_segments(planes.trainables(), planes.squared_grad_norms(s));
    throw_nonfinite(p, options, tensors.first, tensors.last, last, Scaled);
  }
  if constexpr (Scaled)
    if (p.zero_gradients >= options.max_nonfinite_steps) throw_zero_gradients(p, last);
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
