// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A small network of ImageNet's form for tests of integer networks.
#pragma once

#include <cordee/core/extent.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

namespace support {

using namespace cordee;

constexpr extent imagenets_form_image{3, 23, 26};
/// ImageNet's form with few weights: a stem with a max pool of 32 bits, bottlenecks, more filters
/// than a tile of 64 has.
using imagenets_form = network<
    sequential<convolution<20, 7, 2>, batch_norm<relu>, max_pool<3, 2, 1>,
               residual<sequential<convolution<8, 1>, batch_norm<relu>, convolution<8, 3, 2>,
                                   batch_norm<relu>, convolution<40, 1>>,
                        batch_norm<identity>, projection<40, 2>>,
               residual<sequential<convolution<72, 1>, batch_norm<relu>, convolution<40, 3>>,
                        batch_norm<identity>, identity>,
               global_average_pool, linear<70>>,
    int8, cpu, direct, imagenets_form_image, 70>;

}  // namespace support
