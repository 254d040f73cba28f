// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of parameters of the networks of this folder, for 1,000 classes. The tests compare them
// with the modules, and the modules with torchvision's; the simulator reads its sizes here.
#pragma once

#include <cstddef>

namespace networks::parameter_counts {

inline constexpr std::size_t alexnet = 61'100'840;
inline constexpr std::size_t network_in_network = 7'595'176;
inline constexpr std::size_t googlenet = 13'004'888;        // with its auxiliary heads
inline constexpr std::size_t googlenet_paper = 13'385'816;  // likewise, with 5 x 5 convolutions
inline constexpr std::size_t googlenet_inference = 6'624'904;
inline constexpr std::size_t efficientnet_b0 = 5'288'548;

}  // namespace networks::parameter_counts
