// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loops that rules are measured against: plain, over whole planes.
#pragma once

#include <cstddef>

namespace by_hand {

struct numbers {
  float *w, *g, *m, *v;
  std::size_t n;
};

void rate_outside(numbers x);
void rate_inside(numbers x);
/// DecentLaM's, where the mixed point stands in g.
void displaced(numbers x);
void shorten(numbers x);
void adam(numbers x);
/// Writes the direction over g; returns the sum of its squares.
double lamb_first(numbers x);
void lamb_second(numbers x);

}  // namespace by_hand
