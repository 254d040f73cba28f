// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Component simulated by its name: comm/transports/simulated.hpp.
#pragma once

#include <cordee/comm/transports/simulated.hpp>
