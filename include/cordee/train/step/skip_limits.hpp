// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// When gradients that are not finite, or are zero, end a run, and the sentences that say so.
#pragma once

#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/train/step/run_state.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// " (step 7, epoch 1.5, ...)" of the last step.
inline std::string describe_step(const step_outcome& last, bool scaled) {
  return concat(" (step ", last.info.step, ", epoch ", last.info.epoch, ", learning rate ",
                last.info.learning_rate, ", loss ", last.train.mean_loss(),
                scaled ? concat(", loss scale ", last.loss_scale) : "", ")");
}

/// Throws error for the steps counted in p, of which `tensor` is the first one whose gradient was
/// not finite in the last one.
[[noreturn, gnu::cold]] inline void throw_nonfinite(const progress& p,
                                                    const trainer_options& options,
                                                    std::string_view tensor,
                                                    const step_outcome& last, bool scaled) {
  const bool in_a_row = p.nonfinite_steps >= options.max_nonfinite_steps;
  const bool at_smallest = scaled && last.loss_scale <= options.loss_scaling.smallest;
  throw error(concat(
      in_a_row ? concat(p.nonfinite_steps, " steps in a row")
               : concat(p.nonfinite_in_window, " of the last ", (p.step - 1) % progress::window + 1,
                        " steps"),
      last.overflows_statistics
          ? " had a NaN or an infinity, this time in what would be batch norm's running statistics"
          : concat(" had a gradient with a NaN or an infinity, this time first in \"", tensor,
                   "\""),
      describe_step(last, scaled), ": ",
      at_smallest
          ? "the loss scale is at its smallest, so samples or activations overflow in 16 bits, not "
            "the scaled loss: check the input and its normalization, or train in bf16"
      : in_a_row ? "lower the learning rate, warm up for longer, or check the input"
                 : "check the input for samples that overflow, lower the learning rate, or raise "
                   "max_nonfinite_share"));
}

/// Throws error if too many steps had no usable gradient. `scaled`: the loss is scaled, so that a
/// gradient of zero is one that has underflowed.
template <class Planes, class Stream>
[[gnu::cold]] void expect_usable_gradients(const progress& p, const trainer_options& options,
                                           const step_outcome& last, bool scaled,
                                           const Planes& planes, Stream s) {
  if (!last.finite() && (p.nonfinite_steps >= options.max_nonfinite_steps ||
                         p.nonfinite_in_window > options.max_nonfinite_share * progress::window))
    throw_nonfinite(p, options, planes.first_nonfinite_segment(s).name, last, scaled);
  if (scaled && p.zero_gradients >= options.max_nonfinite_steps)
    throw error(concat(p.zero_gradients, " steps in a row had a gradient of zero",
                       describe_step(last, scaled),
                       ": it underflows in 16 bits, and weight decay alone changes the weights: "
                       "raise loss_scaling::smallest, check the loss, or train in bf16"));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
