// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The version. CMake reads it from here.
#pragma once

#include <string_view>

#include <cordee/core/config.hpp>

#define CORDEE_VERSION_MAJOR 0
#define CORDEE_VERSION_MINOR 2
#define CORDEE_VERSION_PATCH 0

namespace cordee::inline CORDEE_ABI {

/// "major.minor.patch", from the macros CORDEE_VERSION_MAJOR, _MINOR and _PATCH.
inline constexpr std::string_view version = "0.2.0";

}  // namespace cordee::inline CORDEE_ABI
