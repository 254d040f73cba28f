// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A small ResNet, and images that it learns in twenty epochs.
#pragma once

#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/schedule/constant.hpp>

namespace support {

using namespace cordee;

constexpr resnet_options small{.image = {1, 16, 16}, .classes = 4, .zero_gamma = false};
const synthetic data{.extent = {1, 16, 16}, .classes = 4, .samples = 96, .seed = 3};
constexpr constant steady{0.05};

template <class Communicator>
auto feed_of(const Communicator& comm) {
  return loader{data, comm, {.global_batch = 24, .seed = 5}, {}, {}};
}

}  // namespace support
