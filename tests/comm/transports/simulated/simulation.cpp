// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/comm/transports/simulated/simulation.hpp>

using namespace cordee;

static_assert(simulation{}.path.seconds == 0 && simulation{}.messages == 0);
