// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How calls find the passes of ops/. Passes are overloads by the stream's type, for the CPU and for
// a GPU, and are called without qualification: argument-dependent lookup finds them in the
// namespace of a base class of the stream. Streams are of device/, which ops/ includes; so the base
// class is declared here.
#pragma once

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct adl_base {};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
