// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `direct` behind plain vectors, compiled once for all tests of a runner: in
// tests/ops/engines/direct/engines.cpp and narrow_engines.cpp.
#pragma once

#include <type_traits>

#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/support/engines.hpp"

namespace support {

/// `direct` on registers of so many bytes.
template <int Bytes>
using direct_on = std::conditional_t<Bytes == cordee::detail::ops::register_bytes, direct,
                                     cordee::detail::ops::direct_with<Bytes>>;

extern template struct harness<direct, float>;
extern template struct harness<direct, double>;
extern template struct harness<direct, half>;
extern template struct harness<direct, bfloat>;
extern template struct harness<cordee::detail::ops::direct_with<16>, float>;
extern template struct harness<cordee::detail::ops::direct_with<16>, double>;

}  // namespace support
