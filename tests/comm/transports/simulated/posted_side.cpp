// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <cordee/comm/transports/simulated/posted_side.hpp>

static_assert(std::is_trivially_copyable_v<cordee::detail::comm::posted_side>);
