// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The networks that this program is compiled for. A network's shape is a type, so another number of
// classes, image size or precision is another line here; CMakeLists.txt counts the lines that begin
// with network_type, and compiles each as a unit of its own, with a trainer for each list of
// optimizers (optimizers.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <tuple>

#include <cordee/nn/resnet.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp32.hpp>

#include "settings.hpp"

namespace train {

using namespace cordee;

template <int Depth, Precision P, resnet_options Options>
struct network_type {
  static constexpr int depth = Depth;
  using type = resnet<Depth, P, cpu, Options>;
};

using networks = std::tuple<
    network_type<8, fp32, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}>,  // MNIST
    network_type<20, fp32, resnet_options{}>,                                          // CIFAR-10
    network_type<20, bf16, resnet_options{}>,
    network_type<18, fp32,
                 resnet_options{.classes = 5, .dropout = true}>,  // five kinds of photographs
    network_type<50, fp32, resnet_options{.dropout = true}>       // ImageNet
    >;

/// One of them, as it is found by the settings.
struct network_entry {
  std::string name, precision;
  extent image;
  int classes;
  int (*run)(const settings&);  // on all ranks; returns the exit status, throws error
};

/// Entry I of `networks`, defined in the unit of that number (unit.cpp).
template <std::size_t I>
network_entry entry_of();

}  // namespace train
