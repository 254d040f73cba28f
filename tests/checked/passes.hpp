// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the passes that are measured share: a device and its tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/checked/access_table.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"

namespace checked {

inline const support::device_fixture at{support::emulated{1}};

/// n numbers x.
template <class T>
cordee::buffer<T, support::emulated> filled(std::size_t n, double x = 1) {
  if constexpr (cordee::Number<T>)
    return at.put(std::vector<T>(n, support::nearest<T>(x)));
  else
    return at.put(std::vector<T>(n, static_cast<T>(x)));
}

/// The passes of reducers, losses, calibration and optimizers (further_passes.cpp).
void measure_further_passes(table& rows);
/// And those of layers that are no network's main ones (layer_passes.cpp).
void measure_layer_passes(table& rows);

}  // namespace checked
