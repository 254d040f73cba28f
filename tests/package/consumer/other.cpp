// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.hpp>

int parameters_in_other_unit() {
  using namespace cordee;
  return static_cast<int>(resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}>::parameters());
}
