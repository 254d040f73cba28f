// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the experiments with many runs: on an image of one channel 6,306 weights.
#pragma once

#include <cordee/cordee.hpp>

namespace science {

template <cordee::extent Image, class P = cordee::fp32>
using small_cnn = cordee::network<
    cordee::sequential<cordee::convolution<8, 3, 2>, cordee::batch_norm<cordee::relu>,
                       cordee::convolution<16, 3, 2>, cordee::batch_norm<cordee::relu>,
                       cordee::convolution<32, 3, 2>, cordee::batch_norm<cordee::relu>,
                       cordee::global_average_pool, cordee::linear<10>>,
    P, cordee::cpu, cordee::direct, Image, 10>;

}  // namespace science
