// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Six convolutions of ResNet-50: a 1x1 that widens, one that narrows, and 3x3 ones, of its first
// and its last stages; and the fused graphs that each has there.
#pragma once

#include <array>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/cudnn/fused_graphs.hpp>

namespace bench {

inline constexpr std::array<cordee::convolution_problem, 6> fused_shapes{
    {{{64, 56, 56}, 256, 1, 1, 0},
     {{256, 56, 56}, 64, 1, 1, 0},
     {{64, 56, 56}, 64, 3, 1, 1},
     {{256, 14, 14}, 256, 3, 1, 1},
     {{1024, 14, 14}, 256, 1, 1, 0},
     {{512, 7, 7}, 2048, 1, 1, 0}}};

/// A residual block begins with a 1x1 that narrows: only that one reads a sum of two branches. The
/// max pool's output has 64 channels, which the first block's first convolution keeps.
constexpr bool has_fused_graph(cordee::detail::ops::fused_graph kind,
                               const cordee::convolution_problem& p) {
  if (kind == cordee::detail::ops::fused_graph::dgrad_add_pooled_bn)
    return p.filters == p.in.channels && p.in.channels == 64;
  return !cordee::detail::ops::adds_residual(kind) || (p.window == 1 && p.filters < p.in.channels);
}

}  // namespace bench
