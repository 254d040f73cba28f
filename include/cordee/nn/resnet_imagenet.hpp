// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The ImageNet family of residual networks (He et al., 2016): a stem, four stages of 64, 128, 256
// and 512 channels, the mean over pixels, a linear classifier.
//
//   18, 34          basic blocks:  3x3 c (the stride), 3x3 c
//   50, 101, 152    bottlenecks:   1x1 c, 3x3 c (the stride: "v1.5", as torchvision), 1x1 4c
//
// Where a stage's first block changes the extent, its shortcut is a 1x1 convolution with the
// block's stride, and a batch norm.
#pragma once

#include <array>
#include <type_traits>

#include <cordee/nn/dropout.hpp>
#include <cordee/nn/offload_activations.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/recompute.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/resnet_options.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

constexpr resnet_options imagenet_defaults(const resnet_options& options) {
  return options.with_defaults({3, 224, 224}, 1000, shortcut::b, stem::large);
}

/// The number of blocks in each stage.
struct imagenet_plan {
  int depth = 0;
  bool bottleneck = false;
  std::array<int, 4> blocks{};
};
inline constexpr std::array<imagenet_plan, 5> imagenet_plans{{{18, false, {2, 2, 2, 2}},
                                                              {34, false, {3, 4, 6, 3}},
                                                              {50, true, {3, 4, 6, 3}},
                                                              {101, true, {3, 4, 23, 3}},
                                                              {152, true, {3, 8, 36, 3}}}};

/// The plan of a depth; its depth is 0 if there is none.
constexpr imagenet_plan imagenet_plan_of(int depth) {
  for (const imagenet_plan& plan : imagenet_plans)
    if (plan.depth == depth) return plan;
  return {};
}

/// Requires that S is imagenet_defaults of something.
template <resnet_options S>
struct imagenet_blocks {
  static_assert(S.shortcut == shortcut::b,
                "ImageNet's residual networks have projection shortcuts: omit .shortcut");

  using norm_relu = batch_norm<relu, batch_norm_options{1, S.ghost_batch}>;
  using last_norm = batch_norm<identity, batch_norm_options{S.zero_gamma ? 0 : 1, S.ghost_batch}>;

  using large_stem = sequential<convolution<64, 7, 2>, norm_relu, max_pool<3, 2>>;
  using small_stem = sequential<convolution<64, 3>, norm_relu>;
  using plain_first = std::conditional_t<S.stem == stem::large, large_stem, small_stem>;
  using first = weights_of<S.offload_weights,
                           std::conditional_t<S.recompute || S.offload_activations,
                                              stored<S, plain_first>, plain_block<plain_first>>>;

  template <int Width, int Stride>
  using basic_body = sequential<convolution<Width, 3, Stride>, norm_relu, convolution<Width, 3>>;
  template <int Width, int Stride>
  using bottleneck_body =
      sequential<convolution<Width, 1>, norm_relu, convolution<Width, 3, Stride>, norm_relu,  //
                 convolution<4 * Width, 1>>;

  template <bool Bottleneck, int Width, int Stride, class Shortcut>
  using block =
      weights_of<S.offload_weights,
                 stored<S, residual<std::conditional_t<Bottleneck, bottleneck_body<Width, Stride>,
                                                       basic_body<Width, Stride>>,
                                    last_norm, Shortcut>>>;

  /// The shortcut is the identity only where neither stride nor channels change: in the first stage
  /// of basic blocks.
  template <bool Bottleneck, int Width, int Stride, int Times>
  using equal_stage =
      stage<block<Bottleneck, Width, Stride,
                  std::conditional_t<
                      Bottleneck || Stride != 1,
                      projection<(Bottleneck ? 4 : 1) * Width, Stride, S.ghost_batch>, identity>>,
            repeat<Times - 1, block<Bottleneck, Width, 1, identity>>>;

  template <imagenet_plan Plan>
  using layers =
      sequential<first, equal_stage<Plan.bottleneck, 64, 1, Plan.blocks[0]>,
                 equal_stage<Plan.bottleneck, 128, 2, Plan.blocks[1]>,
                 equal_stage<Plan.bottleneck, 256, 2, Plan.blocks[2]>,
                 equal_stage<Plan.bottleneck, 512, 2, Plan.blocks[3]>, global_average_pool,
                 weights_of<S.offload_weights, classifier<S.dropout, S.classes>>>;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
