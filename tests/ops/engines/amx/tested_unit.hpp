// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The unit by which tests of kernels on tiles multiply: the processor's in a build with AMX, else
// the model. So a machine with AMX, or its emulator, runs the instructions.
#pragma once

#include <concepts>

#include <cordee/ops/engines/amx/tiles/permission.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace support {

using tested_unit = cordee::detail::ops::default_tile_unit;

/// Asks the system for the processor's tiles. Where it refuses them the cases are skipped:
/// TEST_CASE("…" * doctest::skip(!has_tested_unit())).
inline bool has_tested_unit() {
  return std::same_as<tested_unit, cordee::detail::ops::tile_model> ||
         cordee::detail::ops::tiles_permitted();
}

}  // namespace support
