// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization as a layer, fused with the activation that follows it.
#pragma once

#include <cordee/nn/batch_norm_node.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/relu.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of a batch norm, a template argument.
struct batch_norm_options {
  /// Initial scale of all channels. If it is 0 in the last batch norm of a residual block, the
  /// block is initially the identity (Goyal et al., 2017; `resnet_options::zero_gamma`). Range:
  /// any.
  int gamma = 1;
  /// Consecutive samples that statistics are computed over; 0: the whole batch. The last group of a
  /// batch may be smaller. Unit: samples. Range: 0 or more, else a compile error.
  int ghost_batch = 0;
};

namespace detail::nn {

template <class Activation>
struct epilogue_of {
  static_assert(std::same_as<Activation, identity> || std::same_as<Activation, relu>,
                "the activation of a batch_norm is identity or relu");
  using type =
      std::conditional_t<std::same_as<Activation, relu>, ops::epilogue::relu, ops::epilogue::store>;
};

}  // namespace detail::nn

/// Batch norm, fused with `Activation`, which is `identity` or `relu`.
template <class Activation = identity, batch_norm_options With = batch_norm_options{}>
struct batch_norm {
  static_assert(With.ghost_batch >= 0, "ghost_batch is a number of samples, 0 for the whole batch");
  using activation = Activation;  ///< `residual` demands `identity`: its ReLU follows the addition.
  static constexpr batch_norm_options options = With;  ///< As given.

  static constexpr extent out(const extent& in) { return in; }  ///< See Layer.
  /// Adds "weight", "bias", "running_mean" and "running_var", (channels) each, of the next batch
  /// norm.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_batch_norm();
    registry.add_tensor("weight", kind::scale, {in.channels},
                        {.mean = static_cast<double>(With.gamma)});
    registry.add_tensor("bias", kind::shift, {in.channels}, {});
    registry.add_tensor("running_mean", kind::statistic, {in.channels}, {});
    registry.add_tensor("running_var", kind::statistic, {in.channels}, {.mean = 1});
    registry.leave(parent);
  }
  /// See Layer. `residual` passes an epilogue that adds its shortcut.
  template <class B, extent In, class Epilogue = typename detail::nn::epilogue_of<Activation>::type>
  static auto bind(layout_builder& layout) {
    return detail::nn::batch_norm_node<B, B::block(In.channels), Epilogue>({In, With.ghost_batch},
                                                                           layout);
  }
};

namespace detail::nn {
template <class Activation, batch_norm_options With>
inline constexpr bool restores_output<batch_norm<Activation, With>> = true;
template <batch_norm_options With>
inline constexpr bool writes_given_output<batch_norm<identity, With>> = true;
}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
