// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loss of a network, a policy: a function of one sample's logits z and target y.
//
//   struct squared_hinge {                                     // a loss of your own
//     struct sample_loss {
//       double value;
//       CORDEE_HOST_DEVICE double gradient(double z, double y) const;   // by a logit z of target y
//       double probability(double z) const;  // optional: of a class; without it softmax's
//     };
//     template <class Sample>
//     CORDEE_HOST_DEVICE sample_loss operator()(const Sample& s) const;
//     bool operator==(const squared_hinge&) const = default;
//   };
//   using net = resnet<18, fp32, cpu>::with_loss<squared_hinge>;
//
// The targets of a sample add up to 1: y is 1 for its label and 0 for other classes, or in between
// for the two labels of a mixed sample. `s` offers
//
//   s.classes()        their number K
//   s.sum(f)           the sum over the classes of f(z, y)
//   s.max_logit()      max z; at most once
//   s.target_logit()   the sum of y z
//
// On a GPU the threads of a block share a sample's classes, and each calls sum and max_logit.
// Backward starts from the mean of the samples' losses. Optional members:
//
//   in_evaluation()    the loss reported in evaluation, if it differs
//   check()            throws usage_error for meaningless values
//   describe()         one line for the description of a run
#pragma once

#include <concepts>

#include <cordee/core/config.hpp>
#include <cordee/ops/cpu/loss.hpp>

namespace cordee::inline CORDEE_ABI {

/// Loss of one sample; the header's top lists the members of `sample` and the optional ones.
template <class L>
concept Loss =
    std::copyable<L> && std::equality_comparable<L> &&
    requires(const L loss, const detail::ops::loss_sample<double>& sample, double z, double y) {
      { loss(sample).value } -> std::convertible_to<double>;
      { loss(sample).gradient(z, y) } -> std::convertible_to<double>;
    };

namespace detail::nn {

/// The loss of a phase: training's, or what evaluation reports.
template <Loss L>
constexpr L loss_of(const L& loss, bool training) {
  if constexpr (requires {
                  { loss.in_evaluation() } -> std::same_as<L>;
                })
    return training ? loss : loss.in_evaluation();
  else
    return loss;
}

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
