// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loops that optimizers are compared with: plain, over whole planes.
#pragma once

#include <cstddef>

namespace by_hand {

/// Weights, gradients and two slots, (n) each.
struct numbers {
  float *w, *g, *m, *v;
  std::size_t n;
};

void sgd_lr_outside(numbers x);
void sgd_lr_inside(numbers x);
/// Of DecentLaM, with the mixed point in g.
void decentlam_accept(numbers x);
void scale_gradient(numbers x);
void adamw(numbers x);
/// Writes the direction over g; returns the sum of its squares.
double lamb_direction(numbers x);
void lamb_step(numbers x);

}  // namespace by_hand
