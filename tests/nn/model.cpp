// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/model.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;

namespace {

struct without_backward : support::quadratic<fp32> {
  void backward() = delete;
};

}  // namespace

TEST_CASE("Model: networks and models of a user's own have its members") {
  static_assert(Model<resnet<20, fp32, cpu, resnet_options{.image = {1, 28, 28}}>>);
  static_assert(Model<support::quadratic<fp32>>);
  static_assert(!Model<without_backward>);
  static_assert(!Model<int>);
}
